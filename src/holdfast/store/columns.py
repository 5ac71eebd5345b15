"""The columns of a task, and of the tables of the fleet. Statements, rows and parameters derive from them.

A new column is a field of `core.task.Task` with a default, a line here, and a new migration with the same
number on both databases. A migration that has been applied never changes: its store would be refused.
Promises: names and order are those of `Task`. The macros of a statement, such as `{new}` and `{changed}`
(see `sql.py`), agree with the tuples that are made here. The rows of the fleet are structs: their fields are
the columns. Never: puts values into SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Flag, auto
from operator import attrgetter
from typing import Any, Final, NamedTuple, get_args

import msgspec

from holdfast.core.fleet import model
from holdfast.core.task import Task


class Use(Flag):
    """When a column is written."""

    NEW = auto()
    """With a new task. Other columns start with their default."""
    PLAIN = auto()
    """With a new task that has no dependencies, limits or keys."""
    SHAPE = auto()
    """Like PLAIN, with a value that many tasks share."""
    CHANGED = auto()
    """With every transition."""


class Column(NamedTuple):
    """A column of the table, or of a caller's rows."""

    name: str
    type: str
    """The type in PostgreSQL. SQLite reads rows from JSON and needs no type."""


_NO_USE: Final = Use(0)
_NEW: Final = Use.NEW
_PLAIN: Final = Use.NEW | Use.PLAIN
_SHAPE: Final = Use.NEW | Use.PLAIN | Use.SHAPE
_CHANGED: Final = Use.CHANGED
_TIME: Final = "double precision"
_TABLE: Final[tuple[tuple[Column, Use], ...]] = (
    (Column("id", "text"), _PLAIN),
    (Column("type", "text"), _SHAPE),
    (Column("queue", "text"), _SHAPE),
    (Column("priority", "smallint"), _SHAPE),
    (Column("status", "text"), _NEW | _CHANGED),
    (Column("payload_json", "text"), _PLAIN | _CHANGED),
    (Column("metadata_json", "text"), _SHAPE | _CHANGED),
    (Column("options_json", "text"), _SHAPE),
    (Column("attempts", "integer"), _CHANGED),
    (Column("max_attempts", "integer"), _SHAPE),
    (Column("deaths", "integer"), _CHANGED),
    (Column("version", "bigint"), _CHANGED),
    (Column("fence", "bigint"), _CHANGED),
    (Column("created_at", _TIME), _NEW),
    (Column("updated_at", _TIME), _NEW | _CHANGED),
    (Column("due_at", _TIME), _NEW | _CHANGED),
    (Column("started_at", _TIME), _CHANGED),
    (Column("finished_at", _TIME), _CHANGED),
    (Column("node", "text"), _CHANGED),
    (Column("lease_until", _TIME), _CHANGED),
    (Column("result_json", "text"), _CHANGED),
    (Column("failure_json", "text"), _CHANGED),
    (Column("fingerprint", "text"), _CHANGED),
    (Column("checkpoint_json", "text"), _CHANGED),
    (Column("progress_json", "text"), _CHANGED),
    (Column("limits", "text"), _NEW),
    (Column("gate", "text"), _NEW | _CHANGED),
    (Column("waiting_on", "integer"), _NEW | _CHANGED),
    (Column("has_dependents", "smallint"), _NO_USE),
    (Column("idempotency_key", "text"), _NEW),
    (Column("request_hash", "text"), _NEW),
    (Column("held_by", "text"), _NEW | _CHANGED),
    (Column("project", "text"), _SHAPE),
    (Column("claim_id", "text"), _CHANGED),
    (Column("lease_seconds", _TIME), _CHANGED),
    (Column("progress_timeout_seconds", _TIME), _SHAPE),
    (Column("progress_due_at", _TIME), _CHANGED),
    (Column("assigned_to", "text"), _CHANGED),
    (Column("assigned_until", _TIME), _CHANGED),
    (Column("fair_key", "text"), _NEW),
    (Column("tags_json", "text"), _SHAPE),
    (Column("keep_done_seconds", _TIME), _SHAPE),
)


def _used(use: Use) -> tuple[Column, ...]:
    return tuple(column for column, uses in _TABLE if use in uses)


def _fields(struct: type[msgspec.Struct]) -> tuple[Column, ...]:
    """A column for each field of a struct."""
    return tuple(
        Column(field.name, _column_type(field.type)) for field in msgspec.structs.fields(struct)
    )


def _column_type(annotation: Any) -> str:
    [kind] = [part for part in get_args(annotation) or (annotation,) if part is not type(None)]
    if issubclass(kind, float):
        return _TIME
    return "bigint" if issubclass(kind, int) else "text"


TASK_COLUMNS: Final = tuple(column.name for column, _ in _TABLE)
CLAIMED: Final = (
    *("id", "type", "project", "queue", "priority", "due_at", "attempts", "fence", "version"),
    *("payload_json", "metadata_json", "options_json", "max_attempts", "created_at"),
    *("has_dependents", "idempotency_key", "request_hash", "tags_json", "keep_done_seconds"),
    *("progress_timeout_seconds", "progress_due_at"),
)
"""The columns that a claim returns of a task that has not run before. The process knows those that the claim
sets, and the others are empty. Those that the statement itself reads come first."""
_KNOWN: Final = frozenset(
    ("status", "updated_at", "started_at", "node", "lease_until", "progress_json")
) | {"claim_id", "lease_seconds", "deaths", "waiting_on"}
"""The columns that a claim sets, and those that are 0 in such a task."""


def _rare() -> tuple[Column, ...]:
    """Columns that are NULL in such a task. A new column is one of them."""
    known = _KNOWN.union(CLAIMED)
    return tuple(column for column, _ in _TABLE if column.name not in known)


_BY_NAME: Final = {column.name: column for column, _ in _TABLE}
COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "task": tuple(column for column, _ in _TABLE),
    "new": _used(Use.NEW),
    "plain": _used(Use.PLAIN),
    "shape": _used(Use.SHAPE),
    "changed": _used(Use.CHANGED),
    "claimed": tuple(_BY_NAME[name] for name in CLAIMED),
    "rare": _rare(),
    "host": _fields(model.Host),
    "group": _fields(model.Group),
    "block": _fields(model.Block),
    "job": _fields(model.Job),
    "execution": _fields(model.Execution),
    "approval": _fields(model.ApprovalRequest),
    "vote": _fields(model.Vote),
    "agent": _fields(model.Agent),
    "webhook": _fields(model.Webhook),
    "outbox": _fields(model.OutboxEntry),
}
"""Sets of columns, by their names in statements."""
PLAIN: Final = tuple(column.name for column in COLUMNS["plain"])
SHAPE: Final = tuple(column.name for column in COLUMNS["shape"])

_Values = Callable[[Task], tuple[Any, ...]]


def _values(name: str) -> _Values:
    return attrgetter(*(column.name for column in COLUMNS[name]))


new_values: Final = _values("new")
plain_values: Final = _values("plain")
shape_values: Final = _values("shape")
changed_values: Final = _values("changed")


def plain_params(task: Task) -> dict[str, Any]:
    """The values of a plain task, by column name. A caller waits for each such insert, so it is not checked
    that both have one length, which they have by construction."""
    return dict(zip(PLAIN, plain_values(task), strict=False))


def to_task(row: Iterable[Any]) -> Task:
    """Makes a task from all its columns, in order. `convert` does it in two thirds of the time of a call with
    all the fields."""
    return msgspec.convert(tuple(row), Task)
