"""Worker sync: each message is applied once and in order, whatever the network and the processes do."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from holdfast.core.worker import log as logs
from holdfast.core.worker.protocol import (
    RECEPTIONS,
    Receiver,
    Reception,
    Window,
    ack_of,
    greet,
    merge_acks,
    receive,
)
from holdfast.core.worker.wire import (
    ChangeRefused,
    OutputChunk,
    SyncAck,
    SyncMessage,
    TaskChange,
)


@pytest.mark.parametrize(
    ("incarnation", "sequence", "outcome", "through"),
    [
        (2, 6, Reception.APPLY, 6),
        (2, 5, Reception.DUPLICATE, 5),
        (2, 1, Reception.DUPLICATE, 5),
        (2, 0, Reception.DUPLICATE, 5),
        (2, 7, Reception.GAP, 5),
        (1, 6, Reception.FENCED, 5),
        (1, 1, Reception.FENCED, 5),
        (3, 1, Reception.UNKNOWN, 5),
    ],
)
def test_a_message_is_judged_by_incarnation_and_sequence(
    incarnation: int, sequence: int, outcome: Reception, through: int
) -> None:
    known = Receiver(2, 5)
    ruling, after = receive(known, incarnation, sequence)
    assert ruling is outcome
    assert after == Receiver(2, through)


def test_every_outcome_has_a_row() -> None:
    assert {row.outcome for row in RECEPTIONS} == set(Reception)


def test_a_worker_without_a_receiver_is_unknown() -> None:
    assert receive(None, 1, 1) == (Reception.UNKNOWN, None)


def test_acknowledgements_say_what_the_table_says() -> None:
    known = Receiver(2, 5)
    assert ack_of(Reception.DUPLICATE, known, 4) == SyncAck(accepted=True, sequence=4)
    gap = ack_of(Reception.GAP, known, 9)
    assert (gap.accepted, gap.reason, gap.expected_sequence) == (False, "gap_detected", 6)
    assert ack_of(Reception.FENCED, known, 6).reason == "node_fenced"
    assert ack_of(Reception.UNKNOWN, None, 6).reason == "unknown_node"


def test_acknowledgements_join_unless_one_refuses() -> None:
    first = SyncAck(accepted=True, sequence=4, refused=(ChangeRefused(task_id="a"),))
    second = SyncAck(accepted=True, sequence=5, refused=(ChangeRefused(task_id="b"),))
    joined = merge_acks(first, second)
    assert joined is not None
    assert joined.sequence == 5
    assert [refused.task_id for refused in joined.refused] == ["a", "b"]
    assert merge_acks(first, SyncAck(accepted=False, sequence=4)) is None


@pytest.mark.parametrize(
    ("known", "incarnation", "same_boot", "registered", "expected", "is_new", "refused"),
    [
        (None, 0, False, 0, 1, True, None),
        (None, 0, False, 4, 5, True, None),
        (Receiver(3, 9), 0, False, 0, 4, True, None),
        (Receiver(3, 9), 0, True, 0, 3, False, None),
        (Receiver(3, 9), 0, True, 5, 6, True, None),  # registered since: another start
        (Receiver(3, 9), 3, False, 0, 3, False, None),
        (Receiver(3, 9), 5, False, 5, 5, True, None),
        (Receiver(3, 9), 2, False, 0, 3, False, Reception.FENCED),
        (Receiver(3, 9), 4, False, 0, 3, False, Reception.UNKNOWN),
        (None, 1, False, 0, None, False, Reception.UNKNOWN),
        (None, 2, False, 3, None, False, Reception.FENCED),
    ],
)
def test_a_hello_leads_to_a_receiver(
    known: Receiver | None,
    incarnation: int,
    same_boot: bool,
    registered: int,
    expected: int | None,
    is_new: bool,
    refused: Reception | None,
) -> None:
    greeting = greet(known, incarnation, same_boot=same_boot, registered=registered)
    assert (greeting.receiver.incarnation if greeting.receiver else None) == expected
    assert (greeting.is_new, greeting.refused) == (is_new, refused)
    if greeting.is_new:
        assert greeting.receiver is not None
        assert greeting.receiver.applied_through == 0


def test_a_window_bounds_frames_and_bytes() -> None:
    window = Window(frames=2, bytes=100)
    assert window.has_room(0, 0, 1_000)
    assert window.has_room(1, 50, 50)
    assert not window.has_room(1, 50, 51)
    assert not window.has_room(2, 0, 1)


PROGRESS = ("write", "send", "deliver", "ack")
FAULTS = ("repeat", "lose", "lose_ack", "reconnect", "crash_receiver")
ACTIONS = st.lists(
    st.tuples(st.sampled_from(PROGRESS * 3 + FAULTS), st.integers(0, 9)), min_size=20, max_size=80
)
"""Faults are rarer than progress, so that a run gets far enough to meet them."""


class Wire:
    """A worker and a receiver, and what is between them."""

    def __init__(self) -> None:
        self.log = logs.WorkerLog(1)
        self.receiver = Receiver(1)
        self.applied: list[SyncMessage] = []
        self.down: list[SyncMessage] = []
        self.up: list[SyncAck] = []
        self.written = 0

    def act(self, name: str, n: int) -> None:
        match name:
            case "write":
                self.written += 1
                change = TaskChange(
                    task_id=f"t{n % 3}", fence=1, status="running", iteration=self.written
                )
                self.log = logs.add(self.log, [change])
            case "send":
                self.send()
            case "deliver" if self.down:
                self.deliver(self.down.pop(n % len(self.down)))
            case "repeat" if self.down:
                self.deliver(self.down[n % len(self.down)])
            case "lose" if self.down:
                self.down.pop(n % len(self.down))
            case "ack" if self.up:
                self.log = logs.acknowledged(self.log, self.up.pop(n % len(self.up)))
            case "lose_ack" if self.up:
                self.up.pop(n % len(self.up))
            case "reconnect":
                self.reconnect()
            case "crash_receiver":
                self.up.clear()  # the receiver row survives, unsent answers do not
            case _:
                pass

    def send(self) -> None:
        self.log = logs.fill(self.log, Window(frames=4))
        assert len(self.log.unacknowledged) <= 4
        messages, self.log = logs.unsent(self.log)
        self.down += messages

    def deliver(self, message: SyncMessage) -> None:
        outcome, after = receive(self.receiver, message.incarnation, message.sequence)
        assert after is not None
        self.receiver = after
        if outcome is Reception.APPLY:
            self.applied.append(message)
        self.up.append(ack_of(outcome, after, message.sequence))

    def reconnect(self) -> None:
        self.up.clear()  # the old connection is closed; late copies of its messages may still arrive
        self.log = logs.again(self.log)


@given(ACTIONS)
def test_each_message_is_applied_once_and_in_order(actions: list[tuple[str, int]]) -> None:
    wire = Wire()
    for name, n in actions:
        wire.act(name, n)
    for _ in range(wire.written + 1):  # the network works again
        wire.reconnect()
        wire.send()
        while wire.down:
            wire.deliver(wire.down.pop(0))
        for ack in wire.up:
            wire.log = logs.acknowledged(wire.log, ack)
        wire.up.clear()
    for incarnation in {message.incarnation for message in wire.applied}:
        numbers = [m.sequence for m in wire.applied if m.incarnation == incarnation]
        assert numbers == [*range(1, len(numbers) + 1)]
    iterations = [change.iteration for message in wire.applied for change in message.changes.task]
    assert sorted(i or 0 for i in iterations) == [*range(1, wire.written + 1)]
    by_task: dict[str, list[int]] = {}
    for message in wire.applied:
        for change in message.changes.task:
            by_task.setdefault(change.task_id, []).append(change.iteration or 0)
    assert all(numbers == sorted(numbers) for numbers in by_task.values())
    assert wire.log.unacknowledged == ()
    assert wire.log.waiting == ()


def test_a_change_after_an_end_waits_for_the_next_message() -> None:
    """A message applies its output first, so output after a status must not share its message."""
    log = logs.WorkerLog(1)
    end = TaskChange(task_id="a", fence=1, status="queued")
    late = OutputChunk(task_id="a", fence=1, data=b"late")
    other = OutputChunk(task_id="b", fence=1, data=b"other")
    log = logs.add(log, [end, late, other])
    log = logs.fill(log, Window())
    assert [len(m.changes.task) + len(m.changes.output) for m in log.unacknowledged] == [1, 2]
