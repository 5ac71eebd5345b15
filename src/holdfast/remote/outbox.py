"""Changes of running tasks on their way to the gateway, and what became of each.

Promises: changes are sent in order and applied once (`core.worker.log`). Each change gets one answer, after
its commit: applied, refused with the reason, or unknown, when the acknowledgement was lost with a connection.
Never: I/O. What is here is lost with the process, and so are its runs: they run again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

from holdfast.core.worker import log as rules
from holdfast.core.worker.log import WorkerLog
from holdfast.core.worker.protocol import Window
from holdfast.core.worker.wire import (
    Change,
    ChangeRefused,
    CheckpointChange,
    MetricsChange,
    OutputChunk,
    SyncAck,
    SyncMessage,
    TaskChange,
    change_count,
)


class Unknown:
    """The change was received, but its acknowledgement was lost."""


UNKNOWN: Final = Unknown()
Fate: TypeAlias = ChangeRefused | Unknown | None
"""What became of a change. None: it was applied."""


class _Ticket:
    """A change that waits for its answer."""

    __slots__ = ("change", "future")

    def __init__(self, change: Change, future: asyncio.Future[Fate]) -> None:
        self.change = change
        self.future = future

    def end(self, fate: Fate) -> None:
        if not self.future.done():
            self.future.set_result(fate)


class Outbox:
    """The changes of one incarnation."""

    def __init__(self) -> None:
        self._log = WorkerLog(0)
        self._window = Window()
        self._waiting: deque[_Ticket] = deque()
        self._sent: dict[int, list[_Ticket]] = {}
        self.incarnation = 0

    def put(self, changes: Sequence[Change]) -> list[asyncio.Future[Fate]]:
        """Queues changes. The futures end with their fate."""
        loop = asyncio.get_running_loop()
        tickets = [_Ticket(change, loop.create_future()) for change in changes]
        self._waiting += tickets
        self._log = rules.add(self._log, changes)
        return [ticket.future for ticket in tickets]

    def to_send(self) -> list[SyncMessage]:
        """The messages to send now, within the window."""
        last = self._log.next_sequence
        self._log = rules.fill(self._log, self._window)
        for message in self._log.unacknowledged:
            if message.sequence >= last:
                count = change_count(message.changes)
                self._sent[message.sequence] = [self._waiting.popleft() for _ in range(count)]
        messages, self._log = rules.unsent(self._log)
        return messages

    def acknowledge(self, ack: SyncAck) -> None:
        """After an acknowledgement of the gateway."""
        refused = {(part.task_id, part.fence, part.what): part for part in ack.refused}
        for ticket in self._take(ack.sequence):
            ticket.end(refused.get(_key(ticket.change)))
        self._log = rules.acknowledged(self._log, ack)

    def welcome(self, incarnation: int, applied_through: int, window: Window) -> None:
        """After `Welcome`. Everything that was not applied is sent again. A new incarnation starts with an
        empty log: its predecessor's runs are lost."""
        self._window = window
        if incarnation != self.incarnation:
            self.drop()
            self.incarnation = incarnation
            self._log = WorkerLog(incarnation)
        for ticket in self._take(applied_through):
            ticket.end(UNKNOWN)
        self._log = rules.connected(self._log, applied_through)

    def drop(self) -> None:
        """Gives up everything that waits: its fate is unknown."""
        tickets = [ticket for group in self._sent.values() for ticket in group]
        for ticket in [*tickets, *self._waiting]:
            ticket.end(UNKNOWN)
        self._sent.clear()
        self._waiting.clear()
        self._log = WorkerLog(self.incarnation, self._log.next_sequence)

    def _take(self, through: int) -> list[_Ticket]:
        numbers = [number for number in self._sent if number <= through]
        return [ticket for number in numbers for ticket in self._sent.pop(number)]


def _key(change: Change) -> tuple[str, int, str]:
    """What a refusal names: the run, and which of its changes."""
    match change:
        case TaskChange():
            what = "task"
        case CheckpointChange():
            what = "checkpoint"
        case OutputChunk():
            what = "output"
        case MetricsChange():
            what = "metrics"
        case _:
            assert_never(change)
    return change.task_id, change.fence, what
