"""Transactions that note that a node lives: its heartbeat, and any other request of it.

Promises: a node that was declared lost is back, with an event. Never: extends the lease of a task.
"""

from __future__ import annotations

from holdfast.core.exchange import lamport
from holdfast.core.ids import Ids
from holdfast.core.speaking import Voice
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work
from holdfast.sync.rows import RegisteredNode, event_of, own, read_project
from holdfast.sync.speaking import heard


def see(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    voice: Voice,
    local_clock: int,
    position: str | None,
    skew_ms: int | None,
    info_json: str,
) -> Script[tuple[RegisteredNode, int]]:
    """The heartbeat. A node that was declared lost is back, with an event. Returns the node and the clock of
    its project."""
    row = yield from heard(voice)
    clock = (yield from read_project(row.project)).clock
    yield call(
        own("see_node"),
        id=row.id,
        now=now,
        clock=min(local_clock, clock + lamport.AHEAD_MAX),
        position=position,
        skew_ms=skew_ms,
        info_json=info_json,
    )
    yield from _tell_back(dialect, ids, now, row)
    return row, clock


def note(dialect: Dialect, ids: Ids, now: float, *, voice: Voice) -> Script[None]:
    """A request of a node shows that it lives, as a heartbeat does."""
    row = yield from heard(voice)
    yield call(own("note_node"), id=row.id, now=now)
    yield from _tell_back(dialect, ids, now, row)


def _tell_back(dialect: Dialect, ids: Ids, now: float, row: RegisteredNode) -> Script[None]:
    """The event of a node that was declared lost and is back."""
    if row.lost_at is None:
        return
    work, actor = Work(now), f"node:{row.id}"
    data = {"node": row.id, "state": row.state, "actor": actor, "reason": "it is back"}
    work.events.append(event_of("node.state", now, row.project, data))
    yield from work.save(dialect, ids.record(now))
