"""Changes of running tasks on their way to the gateway, and what became of each.

Promises: changes are sent in order and applied once (`core.worker.log`). Each change gets one answer, after
its commit: applied, or refused with the reason; also when the first acknowledgement was lost with a
connection. The fate of changes that have no answer when their incarnation ends is unknown.
Never: I/O. What is here is lost with the process, and so are its runs: they run again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from holdfast.core.worker import log as rules
from holdfast.core.worker.changes import kind_of
from holdfast.core.worker.log import WorkerLog
from holdfast.core.worker.protocol import Window
from holdfast.core.worker.wire import (
    Change,
    ChangeRefused,
    SyncAck,
    SyncMessage,
    change_count,
)


class Unknown:
    """The incarnation has ended before the change was answered."""


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

    def to_send(self, now: float = 0.0) -> list[SyncMessage]:
        """The messages to send at this time of the worker's clock, within the window."""
        last = self._log.next_sequence
        self._log = rules.fill(self._log, self._window)
        for message in self._log.unacknowledged:
            if message.sequence >= last:
                count = change_count(message.changes)
                self._sent[message.sequence] = [self._waiting.popleft() for _ in range(count)]
        messages, self._log = rules.unsent(self._log)
        return [replace(message, timestamp=round(now * 1000)) for message in messages]

    def acknowledge(self, ack: SyncAck) -> None:
        """After an acknowledgement of the gateway."""
        refused = {(part.sequence, part.what, part.index): part for part in ack.refused}
        for sequence in [n for n in self._sent if ack.accepted and n <= ack.sequence]:
            index = Counter[str]()
            for ticket in self._sent.pop(sequence):
                what = kind_of(ticket.change)
                ticket.end(refused.get((sequence, what, index[what])))
                index[what] += 1
        self._log = rules.acknowledged(self._log, ack)

    def welcome(self, incarnation: int, window: Window) -> None:
        """After `Welcome`. Everything that has no answer is sent again. A new incarnation starts with an
        empty log: its predecessor's runs are lost."""
        self._window = window
        if incarnation != self.incarnation:
            self.drop()
            self.incarnation = incarnation
            self._log = WorkerLog(incarnation)
        self._log = rules.again(self._log)

    def drop(self) -> None:
        """Gives up everything that waits: its fate is unknown."""
        tickets = [ticket for group in self._sent.values() for ticket in group]
        for ticket in [*tickets, *self._waiting]:
            ticket.end(UNKNOWN)
        self._sent.clear()
        self._waiting.clear()
        self._log = WorkerLog(self.incarnation, self._log.next_sequence)
