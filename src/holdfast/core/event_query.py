"""Queries of the search grammar that are judged on events instead of rows of tasks.

Promises: the judgement needs nothing but the event, so a replay and the live feed agree. A key that events do
not carry is refused. Never: reads a store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, assert_never

from holdfast.core.search import Query, matches, parse
from holdfast.core.search.tree import And, Clause, Not, Or, Term
from holdfast.errors import InvalidInput

QUERY_CHARS_MAX: Final = 2_000
EVENT_KEYS: Final = ("id", "type", "project", "version", "status", "node")
"""`id`, `type`, `project` and `version` are those of the task. `status` is the one that the event leads to,
and absent if the event does not change it. `node` is the one that the event names."""


def event_query(text: str) -> Query:
    """The query of a subscription. Raises InvalidInput."""
    if len(text) > QUERY_CHARS_MAX:
        raise InvalidInput(f"query has {len(text)} characters: use at most {QUERY_CHARS_MAX}")
    query = parse(text)
    if query.sort is not None:
        raise InvalidInput("query has 'sort': events come in the order of the feed")
    if query.clause is None:
        raise InvalidInput("query is empty: leave it out to receive all events of a channel")
    for key in _keys(query.clause):
        if key not in EVENT_KEYS:
            raise InvalidInput(
                f"query has '{key}', which events do not carry: use {', '.join(EVENT_KEYS)}"
            )
    return query


def accepts_event(query: Query, payload: dict[str, Any], project: str | None, version: int) -> bool:
    """Whether an event matches, judged by the payload of its frame. Only events of tasks do."""
    if "task_id" not in payload:
        return False
    row = {
        "id": payload["task_id"],
        "type": payload.get("type"),
        "project": project,
        "version": version,
        "status": payload.get("to"),
        "node": payload.get("node"),
    }
    return matches(query, row, 0.0)


def _keys(clause: Clause) -> Iterator[str]:
    match clause:
        case Term():
            yield clause.key
        case And() | Or():
            for part in clause.clauses:
                yield from _keys(part)
        case Not():
            yield from _keys(clause.clause)
        case _:
            assert_never(clause)
