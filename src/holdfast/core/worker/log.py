"""The worker's side of worker sync: the log of what is not acknowledged yet.

Promises: a message keeps its number and its content from its first transmission until it is acknowledged.
What has no number yet may be merged, within the rules of `merged`. Status changes and checkpoints are never
merged and never overtaken by another change of their run. Never: I/O; the caller writes the log to disk.
"""

from __future__ import annotations

from collections.abc import Iterable
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


def add(log: WorkerLog, change: Change) -> WorkerLog:
    """Adds a change, merged into one that waits if the rules allow it."""
    return replace(log, waiting=merged(log.waiting, change))


def merged(waiting: tuple[Change, ...], change: Change) -> tuple[Change, ...]:
    """The changes with another one. It never passes a firm change of its run."""
    for place in range(len(waiting) - 1, -1, -1):
        earlier = waiting[place]
        if _run(earlier) != _run(change):
            continue
        joined = _joined(earlier, change)
        if joined is not None:
            return (*waiting[:place], joined, *waiting[place + 1 :])
        if is_firm(earlier) or is_firm(change):
            break
    return (*waiting, change)


def is_firm(change: Change) -> bool:
    """Whether the change is never merged: a status or a checkpoint."""
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


def connected(log: WorkerLog, applied_through: int) -> WorkerLog:
    """After `Welcome`: what was applied is dropped, everything else is sent again."""
    return replace(_dropped(log, applied_through), sent_through=applied_through)


def acknowledged(log: WorkerLog, ack: SyncAck) -> WorkerLog:
    """After an acknowledgement. After a gap, messages from the expected one on are sent again."""
    log = _dropped(log, ack.sequence)
    if not ack.accepted and ack.expected_sequence:
        return replace(log, sent_through=min(log.sent_through, ack.expected_sequence - 1))
    return log


def _dropped(log: WorkerLog, through: int) -> WorkerLog:
    rest = tuple(message for message in log.unacknowledged if message.sequence > through)
    return replace(log, unacknowledged=rest)


def _run(change: Change) -> tuple[str, int]:
    return change.task_id, change.fence


def _joined(earlier: Change, change: Change) -> Change | None:
    """Both changes as one; None if they stay apart."""
    match earlier, change:
        case TaskChange(status=None), TaskChange(status=None):
            fields = {
                name: value
                for name in ("progress", "phase", "iteration", "note", "reason")
                if (value := getattr(change, name)) is not None
            }
            return replace(earlier, **fields, subtasks=change.subtasks or earlier.subtasks)
        case MetricsChange(), MetricsChange():
            return replace(
                change,
                tokens_used=max(earlier.tokens_used, change.tokens_used),
                cost=max(earlier.cost, change.cost),
                duration_ms=max(earlier.duration_ms, change.duration_ms),
                other=earlier.other | change.other,
            )
        case OutputChunk(), OutputChunk() if _continues(earlier, change):
            return replace(earlier, data=earlier.data + change.data)
        case _:
            return None


def _continues(earlier: OutputChunk, change: OutputChunk) -> bool:
    """Whether the chunk follows the earlier one without a gap, and both fit into one."""
    if earlier.stream != change.stream or earlier.start is None or change.start is None:
        return False
    end = earlier.start + len(earlier.data)
    return change.start == end and len(earlier.data) + len(change.data) <= CHUNK_BYTES_MAX


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
