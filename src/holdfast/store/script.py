"""Transactions as data: a script yields calls of named statements and gets their rows back.

A script knows no driver, no await and no thread; so one text of each transaction serves SQLite,
PostgreSQL, a caller's own connection and the simulator.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")


class StatementCall(msgspec.Struct, frozen=True, gc=False):
    """Run this statement. `rows` fill its {rows: ...}, `params` its :names."""

    name: str
    params: dict[str, Any]
    rows: list[tuple[Any, ...]] | None = None


Rows: TypeAlias = list[Any]
Script: TypeAlias = Generator[StatementCall, Rows, T]


def call(statement: str, **params: Any) -> StatementCall:
    return StatementCall(statement, params)


def call_rows(statement: str, rows: list[tuple[Any, ...]], **params: Any) -> StatementCall:
    return StatementCall(statement, params, rows)


def one(wanted: StatementCall) -> Script[Rows]:
    """A script of a single call."""
    return (yield wanted)
