"""Refused changes of a worker: as its acknowledgement shows them, and as a repeated message gets them again.

Promises: refusals are kept in the transaction that refuses, until the worker surely has its answer.
Never: more messages of a worker than the largest window has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core import codec, gate
from holdfast.core.task import Task
from holdfast.core.transition import Refusal
from holdfast.core.worker.changes import kind_of
from holdfast.core.worker.protocol import Reception
from holdfast.core.worker.wire import (
    WINDOW_FRAMES_MAX,
    Change,
    ChangeRefused,
    Changes,
    SyncAck,
)
from holdfast.store.script import Script, call_rows
from holdfast.sync.worker.live_rows import own
from holdfast.sync.worker.plain import Inbound


def shown(
    change: Change, message: Inbound, refusal: Refusal, *, fence: int, task: Task | None
) -> ChangeRefused:
    """The refusal of a change of this message, with the state of the task; None for a task that the worker
    may not see."""
    return ChangeRefused(
        sequence=message.sequence,
        index=_index(change, message.changes),
        task_id=refusal.task_id,
        code=refusal.code,
        detail=refusal.message,
        what=kind_of(change),
        fence=fence,
        state_json="" if task is None else codec.dumps(_state_of(task)),
    )


def _index(change: Change, changes: Changes) -> int:
    of_its_kind: Sequence[Change] = getattr(changes, kind_of(change))
    return next(n for n, one in enumerate(of_its_kind) if one is change)


def keep_refused(messages: Iterable[tuple[Inbound, SyncAck]]) -> Script[None]:
    """Keeps the refusals of messages that were applied now, without the states of their tasks."""
    refused = [(message, ack) for message, ack in messages if ack.refused]
    if not refused:
        return
    through = {(m.node, m.incarnation): m.sequence - WINDOW_FRAMES_MAX for m, _ in refused}
    yield call_rows(own("drop_refused_messages"), [(*worker, n) for worker, n in through.items()])
    rows = [(m.node, m.incarnation, m.sequence, _kept(ack)) for m, ack in refused]
    yield call_rows(own("put_refused_messages"), rows)


def answer_repeats(
    messages: Sequence[Inbound], outcomes: Sequence[Reception], acks: list[SyncAck]
) -> Script[None]:
    """Gives messages that were applied before the refusals of then."""
    repeats = [n for n, outcome in enumerate(outcomes) if outcome is Reception.DUPLICATE]
    if not repeats:
        return
    keys = {n: (messages[n].node, messages[n].incarnation, messages[n].sequence) for n in repeats}
    rows = yield call_rows(own("refused_messages"), sorted(set(keys.values())))
    kept = {(node, incarnation, sequence): text for node, incarnation, sequence, text in rows}
    for n, key in keys.items():
        if text := kept.get(key):
            refused = msgspec.json.decode(text, type=tuple[ChangeRefused, ...])
            acks[n] = msgspec.structs.replace(acks[n], refused=refused)


def _kept(ack: SyncAck) -> str:
    parts = [msgspec.structs.replace(part, state_json="") for part in ack.refused]
    return msgspec.json.encode(parts).decode()


def _state_of(task: Task) -> dict[str, object]:
    """The state that a refusal carries. Payload and result are left out."""
    return {
        "id": task.id,
        "status": task.status.value,
        "version": task.version,
        "fence": task.fence,
        "attempt": task.attempts,
        "node": task.node,
        "desired": gate.desired(task),
    }
