"""Operations on dead letters: list, groups."""

from __future__ import annotations

from typing import Final

from holdfast.core.check import check_page
from holdfast.core.rights import Operation
from holdfast.core.search import Query, parse
from holdfast.core.search.tree import And, Exact, Not, Term
from holdfast.core.task import EXECUTION_TYPE, FailureKind
from holdfast.core.wire import make_cursor
from holdfast.gateway import redacting
from holdfast.gateway.operations import tasks
from holdfast.gateway.operations.call import Answer, Call
from holdfast.queue import views
from holdfast.queue.dead_letters import DeadGroup
from holdfast.store.search import TaskRow, search

O: Final = Operation  # noqa: E741
TREND_HOURS: Final = 24
GROUPED_MAX: Final = 1_000
"""Dead letters that are grouped for a principal of some projects."""
DEAD: Final = And((Term("status", (Exact("failed"),)), Not(Term("type", (Exact(EXECUTION_TYPE),)))))
"""A failed execution of the fleet is none: its job runs it again."""


async def find(call: Call, *, q: str = "", after: str | None = None, limit: int = 100) -> Answer:
    """Dead letters that match, the newest first."""
    call.authorise_any(O.TASKS_READ)
    query = dead_only(parse(q))
    name = f"dead-letters {q}"
    place = None if after is None else tasks.cursor(after, name)
    page = await search(
        call.services.store, query, projects=call.projects, after=place, limit=check_page(limit)
    )
    last = page.rows[-1] if len(page.rows) == limit else None
    following = None if last is None else make_cursor((last.updated_at, last.id), of=name)
    return Answer({"items": tasks.rows(call, page.rows), "next": following})


async def groups(call: Call, *, limit: int = 50) -> Answer:
    """Dead letters by cause, the largest group first."""
    call.authorise_any(O.TASKS_READ)
    if call.projects is None:
        rows = await call.services.parts.dead_letters.groups(limit=limit)
    else:
        page = await search(
            call.services.store, dead_only(Query()), projects=call.projects, limit=GROUPED_MAX
        )
        rows = _grouped(page.rows)[: check_page(limit)]
    rules = call.services.redaction
    return Answer(
        {"items": [redacting.row(rules, views.dead_group(row)) for row in rows], "next": None}
    )


async def trend(call: Call) -> Answer:
    """The dead letters of each cause by the hour in which they died, over the last 24 hours, oldest first."""
    call.authorise_any(O.TASKS_READ)
    since = call.services.now() - TREND_HOURS * 3_600
    if call.projects is None:
        rows = await call.services.store.reads.dead_by_hour(since)
    else:
        page = await search(
            call.services.store, dead_only(Query()), projects=call.projects, limit=GROUPED_MAX
        )
        rows = [
            (row.fingerprint or "", int((row.finished_at - since) // 3_600), 1)
            for row in page.rows
            if row.finished_at is not None and row.finished_at >= since
        ]
    causes: dict[str, list[int]] = {}
    for fingerprint, hour, count in rows:
        causes.setdefault(fingerprint, [0] * TREND_HOURS)[min(hour, TREND_HOURS - 1)] += count
    return Answer({"from": views.at(since), "causes": causes})


def dead_only(query: Query) -> Query:
    """The query among dead letters."""
    clause = DEAD if query.clause is None else And((DEAD, query.clause))
    return Query(clause, query.sort)


def _grouped(rows: list[TaskRow]) -> list[DeadGroup]:
    groups: dict[str, list[TaskRow]] = {}
    for row in rows:
        groups.setdefault(row.fingerprint or "", []).append(row)
    made = [_group(fingerprint, group) for fingerprint, group in groups.items()]
    return sorted(made, key=lambda group: -group.count)


def _group(fingerprint: str, rows: list[TaskRow]) -> DeadGroup:
    """The rows are the latest first. A task that only failed with a parent is no sample if there is
    another."""
    sample = next((row for row in rows if row.failure_kind != FailureKind.DEPENDENCY), rows[0])
    return DeadGroup(
        fingerprint,
        len(rows),
        min(row.finished_at or 0.0 for row in rows),
        max(row.finished_at or 0.0 for row in rows),
        sample.id,
        sample.type,
        sample.error or "",
        sample.error_type or "",
    )
