"""Rows of the fleet's tables as structs, and back.

Promises: the fields of a struct are the columns of its table, in order (`{host}`, `{job}`, ... in statements,
see `holdfast.store.columns`). Never: reads or writes by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec

from holdfast.core.fleet.model import (
    Agent,
    ApprovalRequest,
    Block,
    Execution,
    Group,
    Host,
    Job,
    OutboxEntry,
    Vote,
    Webhook,
)
from holdfast.store.script import statements_of

S = TypeVar("S", bound=msgspec.Struct)


own: Final = statements_of("holdfast.fleet")
"""Names the statements of this package."""


class Table(Generic[S]):
    """The rows of one table."""

    def __init__(self, struct: type[S]) -> None:
        self._struct = struct
        self._names = struct.__struct_fields__
        self._special = _special(struct)

    def read(self, row: Sequence[Any]) -> S:
        """The struct of a row with all columns, in order."""
        values = dict(zip(self._names, row, strict=True))
        for name, convert in self._special:
            if values[name] is not None:
                values[name] = convert(values[name])
        return self._struct(**values)

    def read_all(self, rows: Sequence[Sequence[Any]]) -> list[S]:
        return [self.read(row) for row in rows]

    def row(self, struct: S) -> tuple[Any, ...]:
        """The values of all columns, in order."""
        return tuple(_plain(getattr(struct, name)) for name in self._names)

    def columns(self, struct: S) -> dict[str, Any]:
        """The values of all columns by name: the parameters of a statement."""
        return dict(zip(self._names, self.row(struct), strict=True))


def _special(struct: type[msgspec.Struct]) -> list[tuple[str, Callable[[Any], Any]]]:
    """The fields whose values are no values of the database."""
    found: list[tuple[str, Callable[[Any], Any]]] = []
    for field in msgspec.structs.fields(struct):
        kinds = get_args(field.type) or (field.type,)
        found += [(field.name, k) for k in kinds if issubclass(k, Enum) or k is bool]
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return int(value) if isinstance(value, bool) else value


HOSTS: Final = Table(Host)
GROUPS: Final = Table(Group)
BLOCKS: Final = Table(Block)
JOBS: Final = Table(Job)
EXECUTIONS: Final = Table(Execution)
APPROVALS: Final = Table(ApprovalRequest)
VOTES: Final = Table(Vote)
AGENTS: Final = Table(Agent)
WEBHOOKS: Final = Table(Webhook)
OUTBOX: Final = Table(OutboxEntry)
