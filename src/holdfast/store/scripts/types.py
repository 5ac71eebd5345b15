"""Registers task types.

Promises: a definition that a request of the API adds or changes has an event and a row of the audit, in the
transaction of the change. A repeat of a definition has none.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast.core import codec
from holdfast.core.audit import AuditEntry
from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import Conflict
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import audit
from holdfast.store.scripts.work import record


def register_types(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    rows: list[tuple[Any, ...]],
    actor: str,
    project: str,
    act: audit.Act | None = None,
) -> Script[None]:
    """Registers types, all or none. `rows`: name, queue, options. `act`: the request of the API; None for the
    code of a process with the store."""
    names = sorted({row[0] for row in rows})
    known = {} if act is None else {row[0]: row for row in (yield call("lock_types", names=names))}
    written = yield call_rows("register_types", rows, now=now, actor=actor, project=project)
    if refused := sorted(set(names) - {row[0] for row in written}):
        raise Conflict(
            f"task type '{refused[0]}' is defined otherwise outside of project '{project}': use another "
            "name, or a token for all projects"
        )
    changed = [row for row in rows if tuple(known.get(row[0], ())) != tuple(row)]
    if act is None or not changed:
        return
    yield from audit.append(
        [
            AuditEntry(
                at=now,
                actor=actor,
                operation=act.operation,
                project=project or DEFAULT_PROJECT,
                subject=f"type:{row[0]}",
                detail_json=codec.dumps(_detail(row, known.get(row[0]))),
                request_id=act.request_id,
            )
            for row in changed
        ]
    )
    events = [
        NewEvent("type.defined", now, "", row[0], {"type": row[0], "queue": row[1], "actor": actor})
        for row in changed
    ]
    record_id = yield from dialect.record_ref(ids.record(now))
    yield from record(dialect, record_id, now, events, Counter())


def _detail(row: tuple[Any, ...], before: tuple[Any, ...] | None) -> dict[str, Any]:
    after = {"queue": row[1], "options": codec.loads(row[2])}
    if before is None:
        return {"after": after}
    return {"before": {"queue": before[1], "options": codec.loads(before[2])}, "after": after}
