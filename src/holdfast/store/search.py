"""Searches tasks by the grammar `q`, without their bodies.

Promises: a page has at most `limit` rows, each with the start and the size of its payload and result, never
the whole. Pages continue behind a row, so a list has no row twice. Order: by id, the newest first; ids that
Holdfast makes rise with time. `sort:updated` orders by the time of the last change.
`id:NAME` also finds the task that nodes call so (index `holdfast_sync_task_client`). `job:ID` finds the
executions of a job (`holdfast_execution_job`), `host:NAME` those of a host among the newest tasks.
A tag that all tasks of a list must have is where the search begins: its tasks are read in their order, so a
page costs the same however many tasks have the tag or not.
A search that no index bounds reads the newest `NEWEST` tasks only; `SearchPage.scope` says so.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from holdfast.core.search import (
    NAMED,
    NEWEST,
    SCOPE,
    Condition,
    Query,
    SqlDialect,
    condition,
    needs_scope,
    order_by,
    rows_after,
)
from holdfast.core.search.sql_json import postgres_document
from holdfast.core.search.tree import And, Clause, Exact, Term
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.core.wire import PREVIEW_BYTES, preview
from holdfast.store.script import StatementCall, one
from holdfast.store.sql import WRITTEN
from holdfast.store.store import Store

_PLAIN: Final = (
    "id", "type", "queue", "project", "priority", "status", "attempts", "max_attempts", "deaths", "version",
    "fence", "created_at", "updated_at", "due_at", "started_at", "finished_at", "node", "claim_id",
    "lease_until", "gate", "held_by", "waiting_on", "idempotency_key", "fingerprint", "progress_json",
    "tags_json",
)  # fmt: skip
_COLUMNS: Final = {
    "id": "id", "status": "status", "type": "type", "queue": "queue", "project": "project", "node": "node",
    "priority": "priority", "attempt": "attempts", "version": "version", "held": "held_by", "why": "gate",
    "fingerprint": "fingerprint", "created": "created_at", "updated": "updated_at", "due": "due_at",
    "finished": "finished_at", "args": "payload_json", "meta": "metadata_json", "lock": "lease_until",
    "tag": "holdfast_task_tag", "decision": "CASE WHEN gate LIKE '!decision:%' THEN 'open' END",
    "job": "(SELECT task_id, job_id AS job FROM holdfast_execution) AS execution",
    # `id` is that of the task: the row of an execution has none.
    "host": "(SELECT host FROM holdfast_execution WHERE task_id = id)",
    NAMED: "SELECT task_id FROM holdfast_sync_task WHERE client_id = {name}",
}  # fmt: skip
_FAILURE: Final = {
    SqlDialect.SQLITE: "json_extract(failure_json, '$.{0}')",
    SqlDialect.POSTGRES: f"({postgres_document('failure_json')} ->> '{{0}}')",
}
"""A field of the latest failure."""


class TaskRow(msgspec.Struct, frozen=True):
    """A task in a list."""

    id: str
    type: str
    queue: str
    project: str
    priority: int
    status: str
    attempts: int
    max_attempts: int
    deaths: int
    version: int
    fence: int
    created_at: float
    updated_at: float
    due_at: float
    started_at: float | None
    finished_at: float | None
    node: str | None
    claim_id: str | None
    lease_until: float | None
    gate: str | None
    held_by: str | None
    waiting_on: int
    idempotency_key: str | None
    fingerprint: str | None
    progress_json: str | None
    tags_json: str | None
    error: str | None
    failure_kind: str | None
    error_type: str | None
    payload_preview: str
    payload_bytes: int
    result_preview: str | None
    result_bytes: int | None


class SearchPage(msgspec.Struct, frozen=True):
    """One page of a search."""

    rows: list[TaskRow]
    scope: str | None = None
    """Which rows were searched. None: all."""


class After(msgspec.Struct, frozen=True):
    """The last row of the page before: the time that a list is sorted by, and the id."""

    at: float
    id: str


async def search(
    store: Store,
    query: Query,
    *,
    projects: Collection[str] | None = None,
    after: After | None = None,
    limit: int = 100,
) -> SearchPage:
    """One page of the tasks that match. `projects`: only tasks of these; None for all."""
    dialect = SqlDialect.SQLITE if store.one_writer else SqlDialect.POSTGRES
    text, values = _text(query, dialect, now=store.now(), projects=projects, after=after)
    call = StatementCall(WRITTEN + text, {**values, "limit": limit, "newest": NEWEST})
    if not needs_scope(query):
        del call.params["newest"]
    rows = await store.read(lambda: one(StatementCall(call.name, dict(call.params))))
    return SearchPage([_row(row) for row in rows], SCOPE if needs_scope(query) else None)


class FacetRow(msgspec.Struct, frozen=True):
    """What a task is counted by."""

    status: str
    type: str
    queue: str
    created_at: float


async def facet_rows(
    store: Store, query: Query, *, projects: Collection[str] | None = None, limit: int
) -> list[FacetRow]:
    """The newest tasks that match, at most `limit`, without anything but what they are counted by."""
    dialect = SqlDialect.SQLITE if store.one_writer else SqlDialect.POSTGRES
    plain = Query(query.clause, None)
    text, values = _text(
        plain, dialect, now=store.now(), projects=projects, after=None, selected=_FACETS
    )
    params = {**values, "limit": limit}
    if needs_scope(plain):
        params["newest"] = NEWEST
    rows = await store.read(lambda: one(StatementCall(WRITTEN + text, dict(params))))
    return [FacetRow(*row) for row in rows]


_FACETS: Final = (" ".join(FacetRow.__struct_fields__), ", ".join(FacetRow.__struct_fields__))


def _text(
    query: Query,
    dialect: SqlDialect,
    *,
    now: float,
    projects: Collection[str] | None,
    after: After | None,
    selected: tuple[str, str] | None = None,
) -> tuple[str, dict[str, Any]]:
    columns = {
        **_COLUMNS,
        "error": _FAILURE[dialect].format("message"),
    }
    tag, rest = _first_tag(query)
    found = condition(rest, columns, dialect, now=now, by_row=tag is not None)
    wheres, values = [found.text], dict[str, Any](found.values)
    if tag is not None:
        columns["id"] = "tagged.task_id"
        tagged = _tagged(tag, projects, dialect)
        # SQLite reads the tables of a CROSS JOIN in this order.
        source = f"({tagged.text}) AS tagged CROSS JOIN holdfast_task"
        wheres.append("id = tagged.task_id")
        values |= tagged.values
    elif needs_scope(query):
        limit = _param("newest", "bigint", dialect)
        source = f"(SELECT * FROM holdfast_task ORDER BY id DESC LIMIT {limit}) AS newest"
    else:
        source = "holdfast_task"
    if projects is not None:
        wheres.append(_within(dialect))
        values["projects"] = sorted(projects)
    by_updated = query.sort is not None and query.sort.key == "updated"
    if by_updated:
        order = order_by(query.sort, columns, dialect)
    else:
        order = f"{columns['id']} {'ASC' if _oldest_first(query) else 'DESC'}"
    if after is not None:
        behind = (
            rows_after(query.sort, columns, dialect, after.at, after.id)
            if by_updated
            else _behind_id(columns["id"], after.id, dialect, oldest_first=_oldest_first(query))
        )
        wheres.append(behind.text)
        values |= behind.values
    names, shown = selected or (
        " ".join(TaskRow.__struct_fields__),
        f"{', '.join(_PLAIN)}, {_failure(dialect)}, {_bodies(dialect)}",
    )
    text = (
        f"-- returns: {names}\n"
        f"SELECT {shown}\n"
        f"FROM {source} WHERE {' AND '.join(wheres)}\n"
        f"ORDER BY {order} LIMIT {_param('limit', 'bigint', dialect)}"
    )
    return text, values


def _oldest_first(query: Query) -> bool:
    sort = query.sort
    if sort is None:
        return False
    return sort.descending if sort.key == "age" else not sort.descending


def _behind_id(column: str, task_id: str, dialect: SqlDialect, *, oldest_first: bool) -> Condition:
    sign = ">" if oldest_first else "<"
    text = f"{column} {sign} {_param('after_id', 'text', dialect)}"
    return Condition(text, {"after_id": task_id})


def _first_tag(query: Query) -> tuple[str | None, Query]:
    """The tag that the search begins with, and the rest of the query. None: a task needs no certain tag."""
    clauses = query.clause.clauses if isinstance(query.clause, And) else (query.clause,)
    for clause in clauses:
        match clause:
            case Term("tag", (Exact(text),)):
                rest = tuple(other for other in clauses if other is not clause)
                return text, Query(_all_of(rest), query.sort)
    return None, query


def _all_of(clauses: tuple[Clause | None, ...]) -> Clause | None:
    kept = tuple(clause for clause in clauses if clause is not None)
    return And(kept) if len(kept) > 1 else next(iter(kept), None)


def _tagged(tag: str, projects: Collection[str] | None, dialect: SqlDialect) -> Condition:
    """The query for the ids of the tasks with a tag (the primary key, or `holdfast_task_tag_project`)."""
    wheres = [f"tag = {_param('first_tag', 'text', dialect)}"]
    values: dict[str, Any] = {"first_tag": tag}
    if projects is not None and DEFAULT_PROJECT not in projects:
        # Written out: a partial index serves no parameter.
        wheres.append(f"project <> '{DEFAULT_PROJECT}'")
        if len(projects) == 1:
            wheres.append(f"project = {_param('first_project', 'text', dialect)}")
            [values["first_project"]] = projects
    return Condition(f"SELECT task_id FROM holdfast_task_tag WHERE {' AND '.join(wheres)}", values)


def _within(dialect: SqlDialect) -> str:
    if dialect is SqlDialect.SQLITE:
        return "project IN (SELECT value FROM json_each(:projects))"
    return "project = ANY(:projects::text[])"


def _failure(dialect: SqlDialect) -> str:
    field = _FAILURE[dialect]
    columns = {"error": "message", "failure_kind": "kind", "error_type": "error_type"}
    return ", ".join(f"{field.format(key)} AS {name}" for name, key in columns.items())


def _bodies(dialect: SqlDialect) -> str:
    """The start and the size of the two bodies. A character has at least one byte."""
    size = "octet_length({0})"
    parts = []
    for name in ("payload", "result"):
        column = f"{name}_json"
        parts.append(f"substr({column}, 1, {PREVIEW_BYTES}) AS {name}_preview")
        parts.append(f"{size.format(column)} AS {name}_bytes")
    return ", ".join(parts)


def _param(name: str, cast: str, dialect: SqlDialect) -> str:
    return f":{name}" if dialect is SqlDialect.SQLITE else f":{name}::{cast}"


def _row(values: Any) -> TaskRow:
    row = TaskRow(*values)
    result = None if row.result_preview is None else preview(row.result_preview)
    return msgspec.structs.replace(
        row, payload_preview=preview(row.payload_preview), result_preview=result
    )
