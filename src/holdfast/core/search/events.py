"""Queries of a list of events: its keys, and the values of an event.

A bare word is the beginning of a subject: of what the event is about, a task or the queue, node, lock, job,
host or schedule that its data name. `actor` is the one who did it: a person, or the node that ran the task.
Promises: the judgement needs nothing but the event. Never: reads a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, assert_never

from holdfast.core.event import Event
from holdfast.core.search.keys import CREATED, ID, Key, Keys, Kind, table
from holdfast.core.search.matching import matches
from holdfast.core.search.parse import QueryError, parse
from holdfast.core.search.tree import And, Clause, Exact, Not, Or, Query, Term
from holdfast.core.task import DEFAULT_PROJECT

EVENT_KEYS: Final[Keys] = table(
    Key(ID, Kind.TEXT, many=True),
    Key("subject", Kind.TEXT, many=True),
    Key("actor", Kind.TEXT),
    Key("position", Kind.TEXT),
    Key("kind", Kind.TEXT),
    Key("at", Kind.TIME),
    Key(CREATED, Kind.TIME),
    Key("age", Kind.AGE),
    Key("task_id", Kind.TEXT, indexed=True),
    Key("type", Kind.TEXT),
    Key("project", Kind.TEXT),
    Key("version", Kind.NUMBER),
    Key("data", Kind.JSON),
)
LOOK_MAX: Final = 10_000
"""Events that one page of a search looks at."""
_SUBJECTS: Final = (
    "schedule",
    "queue",
    "node",
    "host",
    "resource",
    "name",
    "group",
    "job",
    "external_id",
    "block",
    "conflict",
    "decision_id",
    "intervention_id",
    "operation_id",
    "token",
    "webhook",
)
"""The fields of `data` that name what an event is about."""
_OF_TASKS: Final = tuple(name for name in _SUBJECTS if name not in ("queue", "name"))
"""Those of an event of a task, whose queue says nothing about it."""


def list_query(text: str) -> Query:
    """The query of a list of events. Raises QueryError."""
    query = parse(text, EVENT_KEYS)
    if query.sort is not None:
        raise QueryError(text.index("sort:"), "no sort: this list has one order")
    return query


def accepts(query: Query, event: Event, data: Mapping[str, Any], now: float) -> bool:
    """Whether an event matches. `data`: as they are shown, times as texts."""
    return query.clause is None or matches(query, EventRow(event, data), now, EVENT_KEYS)


def without_data(query: Query) -> Query:
    """The part of a query that is judged without the data of events: what does not match it, does not match
    the query."""
    kept = tuple(each for each in _all_of(query) if not _reads_data(each))
    return Query(And(kept) if len(kept) > 1 else next(iter(kept), None))


class EventRow(Mapping[str, object]):
    """The values of an event by key. Each is made when it is asked for: most events fail the first test."""

    __slots__ = ("_data", "_event")

    def __init__(self, event: Event, data: Mapping[str, Any]) -> None:
        self._event = event
        self._data = data

    def __getitem__(self, key: str) -> object:
        event = self._event
        match key:
            case "kind":
                return event.kind
            case "at" | "created":
                return event.at
            case "id" | "subject":
                return self._subjects()
            case "actor":
                return next(iter(_texts(self._data, ("actor", "node"))), None)
            case "position":
                return str(event.position)
            case "task_id":
                return event.task_id or None
            case "type":
                return event.type or None
            case "project":
                return event.project or (DEFAULT_PROJECT if event.task_id else None)
            case "version":
                return event.version or None
            case "data":
                return self._data
            case _:
                raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(EVENT_KEYS)

    def __len__(self) -> int:
        return len(EVENT_KEYS)

    def _subjects(self) -> list[str]:
        event = self._event
        names = _OF_TASKS if event.task_id else _SUBJECTS
        return [text for text in (event.task_id, event.type) if text] + _texts(self._data, names)


def task_of(query: Query) -> str | None:
    """The id of the one task whose events can match. None: any event can."""
    for each in _all_of(query):
        match each:
            case Term(key="task_id", tests=(Exact(text=text),)):
                return text
    return None


def _all_of(query: Query) -> tuple[Clause, ...]:
    """The clauses that all have to hold."""
    match query.clause:
        case None:
            return ()
        case And(clauses=clauses):
            return clauses
        case clause:
            return (clause,)


def _reads_data(clause: Clause) -> bool:
    match clause:
        case Term():
            return clause.key in (ID, "subject", "actor", "data")
        case And() | Or():
            return any(_reads_data(each) for each in clause.clauses)
        case Not():
            return _reads_data(clause.clause)
        case _:
            assert_never(clause)


def _texts(data: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    return [data[name] for name in names if isinstance(data.get(name), str) and data[name]]
