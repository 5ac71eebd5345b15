"""Transactions as data: a script yields calls of named statements and gets their rows back.

A script does not depend on a driver, on await or on threads. The same script therefore runs on SQLite, on
PostgreSQL, on a caller's connection and in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")


class StatementCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a named statement. `rows` fill its {rows: ...}, `params` its :names."""

    name: str
    params: dict[str, Any]
    rows: list[tuple[Any, ...]] | None = None
    ahead: bool = False
    """The script does not need the rows, and gets none: while the server runs this statement, the script may
    prepare the next one."""
    values: tuple[Any, ...] | None = None
    """In place of `params`, for a frequent write whose answer is not read (PostgreSQL returns none): their
    values in the order in which the names first appear, on SQLite statement by statement. Faster to bind."""


Rows: TypeAlias = list[Any]
Script: TypeAlias = Generator[StatementCall, Rows, T]


def call(statement: str, **params: Any) -> StatementCall:
    return StatementCall(statement, params)


def call_ahead(statement: str, **params: Any) -> StatementCall:
    return StatementCall(statement, params, ahead=True)


def call_rows(statement: str, rows: list[tuple[Any, ...]], **params: Any) -> StatementCall:
    return StatementCall(statement, params, rows)


Guard: TypeAlias = Callable[[], Script[object]]
"""Makes a script that raises unless the transaction may go on."""


def statements_of(package: str) -> Callable[[str], str]:
    """How a package above the store calls its own statements (`store.sql.Statements`)."""
    return f"{package}:{{}}".format


def guarded(guard: Guard | None, script: Script[T]) -> Script[T]:
    """The script, after its guard, in the same transaction."""
    if guard is not None:
        yield from guard()
    return (yield from script)


def one(statement: StatementCall) -> Script[Rows]:
    """A script of a single call."""
    return (yield statement)
