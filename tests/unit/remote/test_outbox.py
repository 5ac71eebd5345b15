"""The outbox of a remote worker against the rules of a receiver, whatever the connection does."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core.worker.changes import kind_of
from holdfast.core.worker.protocol import Receiver, Reception, Window, ack_of, receive
from holdfast.core.worker.wire import (
    Change,
    ChangeRefused,
    CheckpointChange,
    MetricsChange,
    OutputChunk,
    SyncAck,
    SyncMessage,
    TaskChange,
)
from holdfast.remote.outbox import UNKNOWN, Fate, Outbox

WINDOW = Window(frames=3, bytes=2_000)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 5)),
        st.tuples(st.just("send"), st.just(0)),
        st.tuples(st.just("deliver"), st.integers(1, 3)),
        st.tuples(st.just("repeat"), st.integers(0, 5)),
        st.tuples(st.just("skip"), st.just(0)),
        st.tuples(st.just("hear"), st.integers(1, 3)),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("late"), st.just(0)),
        st.tuples(st.just("renew"), st.just(0)),
    ),
    max_size=60,
)


def change(n: int) -> Change:
    """The n-th change. Every fourth is refused by the receiver, every third ends its run."""
    status = "completed" if n % 3 == 0 else None
    if n % 5 == 0:
        return CheckpointChange(task_id=f"t{n}", fence=1, checkpoint_id=f"c{n}", data_json="1")
    return TaskChange(task_id=f"t{n}", fence=1, status=status, note="x" * (n % 7 * 60))


def is_refused(of: Change) -> bool:
    return int(of.task_id[1:]) % 4 == 0


class Network:
    """An outbox, a connection that loses what is on it, and a receiver that stores what it applied."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.receiver = Receiver(1)
        self.applied: list[str] = []
        self.out: deque[SyncMessage] = deque()
        self.late: deque[SyncMessage] = deque()
        """What earlier connections may still deliver. Their answers are lost."""
        self.refused: dict[int, tuple[ChangeRefused, ...]] = {}
        self.back: deque[SyncAck] = deque()
        self.sent: list[SyncMessage] = []
        self.count = 0
        self.fates: dict[str, asyncio.Future[Fate]] = {}
        self.welcome()

    def welcome(self) -> None:
        self.late += self.out
        self.out.clear()
        self.back.clear()
        known = self.receiver
        self.outbox.welcome(known.incarnation, WINDOW)
        self.send()

    def put(self, count: int) -> None:
        changes = [change(self.count + n) for n in range(count)]
        self.count += count
        names = [made.task_id for made in changes]
        self.fates |= dict(zip(names, self.outbox.put(changes), strict=True))

    def send(self) -> None:
        messages = self.outbox.to_send()
        self.out += messages
        self.sent += messages
        known = self.outbox._log.unacknowledged
        assert len(known) <= WINDOW.frames
        assert len(known) == 1 or sum(message.size for message in known) <= WINDOW.bytes

    def deliver(self, message: SyncMessage) -> SyncAck:
        outcome, after = receive(self.receiver, message.incarnation, message.sequence)
        assert after is not None
        self.receiver = after
        if outcome is Reception.APPLY:
            self.refused[message.sequence] = tuple(self.apply(message))
        ack = ack_of(outcome, after, message.sequence)
        if ack.accepted:
            ack = replace(ack, refused=self.refused[message.sequence])
        return ack

    def apply(self, message: SyncMessage) -> Iterator[ChangeRefused]:
        kinds: tuple[Sequence[Change], ...] = (message.changes.task, message.changes.checkpoint)
        for kind in kinds:
            for index, part in enumerate(kind):
                if is_refused(part):
                    what = kind_of(part)
                    at = message.sequence
                    yield ChangeRefused(code="no", what=what, sequence=at, index=index)
                else:
                    self.applied.append(part.task_id)

    def act(self, name: str, n: int) -> None:
        match name:
            case "put":
                self.put(n)
            case "send":
                self.send()
            case "deliver":
                for _ in range(min(n, len(self.out))):
                    self.back.append(self.deliver(self.out.popleft()))
            case "repeat" if self.sent:
                self.deliver(self.sent[-1 - n % len(self.sent)])
            case "late" if self.late:
                self.deliver(self.late.popleft())
            case "skip" if self.out:
                self.out.popleft()  # the receiver sees a gap
            case "hear":
                for _ in range(min(n, len(self.back))):
                    self.outbox.acknowledge(self.back.popleft())
                self.send()
            case "cut":
                self.welcome()
            case "renew" if self.back:  # an acknowledgement that comes twice
                self.back.append(self.back[-1])

    def check(self) -> None:
        assert len(self.applied) == len(set(self.applied)), "a change took effect twice"
        for name, future in self.fates.items():
            if not future.done():
                continue
            fate = future.result()
            is_no = is_refused(change(int(name[1:])))
            if fate is None:
                assert name in self.applied, f"{name} was acknowledged and is lost"
            else:
                assert fate is not UNKNOWN
                assert is_no
                assert name not in self.applied

    def settle(self) -> None:
        """A sound connection from now on."""
        self.welcome()
        for _ in range(10_000):
            self.act("deliver", 3)
            self.act("hear", 3)
            if not self.out and not self.back and all(f.done() for f in self.fates.values()):
                return
        raise AssertionError("the outbox does not get empty")


@given(ACTIONS)
def test_nothing_acknowledged_is_lost_and_nothing_takes_effect_twice(
    actions: list[tuple[str, int]],
) -> None:
    async def play() -> None:
        network = Network()
        for name, n in actions:
            network.act(name, n)
            network.check()
        network.settle()
        network.check()
        expected = [f"t{n}" for n in range(network.count) if not is_refused(change(n))]
        assert sorted(network.applied) == sorted(expected)

    asyncio.run(play())


@given(ACTIONS, st.booleans())
def test_a_new_incarnation_ends_every_wait(actions: list[tuple[str, int]], is_error: bool) -> None:
    """Changes of the old one are unknown or failed; those of the new one start at 1."""

    async def play() -> None:
        network = Network()
        for name, n in actions:
            network.act(name, n)
        if is_error:
            network.outbox.drop()
        network.receiver = Receiver(2)
        network.welcome()
        assert all(future.done() for future in network.fates.values())
        assert network.outbox.to_send() == []
        (future,) = network.outbox.put([change(1)])
        (message,) = network.outbox.to_send()
        assert (message.sequence, message.incarnation) == (1, 2)
        network.refused.clear()
        network.outbox.acknowledge(network.deliver(message))
        assert future.result() is None

    asyncio.run(play())


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (TaskChange(task_id="t", fence=2), "task"),
        (CheckpointChange(task_id="t", fence=2, checkpoint_id="c"), "checkpoint"),
        (OutputChunk(task_id="t", fence=2, data=b"x"), "output"),
        (MetricsChange(task_id="t", fence=2), "metrics"),
    ],
)
async def test_a_refusal_finds_its_change(made: Change, what: str) -> None:
    outbox = Outbox()
    outbox.welcome(1, Window())
    (future,) = outbox.put([made])
    (message,) = outbox.to_send()
    refused = ChangeRefused(what=what, code="lease-lost", sequence=message.sequence, index=0)
    outbox.acknowledge(SyncAck(accepted=True, sequence=message.sequence, refused=(refused,)))
    assert future.result() == refused
