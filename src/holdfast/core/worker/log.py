"""The worker's side of worker sync: the log of what is not acknowledged yet.

Promises: a message keeps its number and its content from its first transmission until it is acknowledged.
Status changes and checkpoints are never overtaken by another change of their run. Never: I/O; merges changes.
A handler waits for the commit of each report, so two reports of one run never wait together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core.worker.protocol import Window
from holdfast.core.worker.wire import (
    CHANGES_MAX,
    CHUNK_BYTES_MAX,
    Change,
    Changes,
    CheckpointChange,
    MetricsChange,
    OutputChunk,
    SyncAck,
    SyncMessage,
    TaskChange,
)

OVERHEAD_BYTES: Final = 256
"""What a message is taken to need beside its output and texts."""


class Numbered(msgspec.Struct, frozen=True):
    """A message with its number. Its content does not change any more."""

    sequence: int
    changes: Changes
    size: int


class WorkerLog(msgspec.Struct, frozen=True):
    """What a worker has to send, in order."""

    incarnation: int
    next_sequence: int = 1
    unacknowledged: tuple[Numbered, ...] = ()
    sent_through: int = 0
    """The last number that was sent on this connection."""
    waiting: tuple[Change, ...] = ()
    """Changes without a number."""


def add(log: WorkerLog, changes: Sequence[Change]) -> WorkerLog:
    """Adds changes, in order."""
    return replace(log, waiting=(*log.waiting, *changes))


def is_firm(change: Change) -> bool:
    """Whether no later change of its run may pass it: a status or a checkpoint."""
    return isinstance(change, CheckpointChange) or (
        isinstance(change, TaskChange) and change.status is not None
    )


def fill(log: WorkerLog, window: Window) -> WorkerLog:
    """Gives numbers to waiting changes, as far as the window has room. Changes that wait together share a
    message."""
    while log.waiting:
        count, size = _next_message(log.waiting)
        used = sum(message.size for message in log.unacknowledged)
        if not window.has_room(len(log.unacknowledged), used, size):
            break
        message = Numbered(log.next_sequence, _changes(log.waiting[:count]), size)
        log = replace(
            log,
            next_sequence=log.next_sequence + 1,
            unacknowledged=(*log.unacknowledged, message),
            waiting=log.waiting[count:],
        )
    return log


def unsent(log: WorkerLog) -> tuple[list[SyncMessage], WorkerLog]:
    """The messages to send now, and the log after they were sent."""
    messages = [
        SyncMessage(sequence=message.sequence, changes=message.changes, incarnation=log.incarnation)
        for message in log.unacknowledged
        if message.sequence > log.sent_through
    ]
    through = max([log.sent_through, *(message.sequence for message in messages)])
    return messages, replace(log, sent_through=through)


def again(log: WorkerLog) -> WorkerLog:
    """After `Welcome` or a gap: what is not acknowledged is sent again. The gateway answers what it has
    applied already as it did then, so that each change gets its own answer."""
    first = log.unacknowledged[0].sequence if log.unacknowledged else log.next_sequence
    return replace(log, sent_through=first - 1)


def acknowledged(log: WorkerLog, ack: SyncAck) -> WorkerLog:
    """After an acknowledgement. One that does not accept its message answers no other message either."""
    if not ack.accepted:
        return again(log) if ack.expected_sequence else log
    rest = tuple(message for message in log.unacknowledged if message.sequence > ack.sequence)
    return replace(log, unacknowledged=rest)


def _run(change: Change) -> tuple[str, int]:
    return change.task_id, change.fence


def _next_message(waiting: tuple[Change, ...]) -> tuple[int, int]:
    """How many changes the next message takes, and its size. A message applies output and metrics before
    progress and checkpoints, and ends of runs last (`sync.worker.messages`): a change that this would move
    before an earlier firm change of its run waits for the next message."""
    size, ended = OVERHEAD_BYTES, set[tuple[str, int]]()
    for count, change in enumerate(waiting):
        grown = size + _size(change)
        if count and (count >= CHANGES_MAX or grown > CHUNK_BYTES_MAX or _run(change) in ended):
            return count, size
        size = grown
        if is_firm(change):
            ended.add(_run(change))
    return len(waiting), size


def _size(change: Change) -> int:
    return len(change.data) if isinstance(change, OutputChunk) else len(msgspec.json.encode(change))


def _changes(changes: Iterable[Change]) -> Changes:
    parts = list(changes)
    return Changes(
        task=tuple(c for c in parts if isinstance(c, TaskChange)),
        output=tuple(c for c in parts if isinstance(c, OutputChunk)),
        checkpoint=tuple(c for c in parts if isinstance(c, CheckpointChange)),
        metrics=tuple(c for c in parts if isinstance(c, MetricsChange)),
    )
