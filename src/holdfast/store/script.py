"""Transactions as data: a script yields calls of named statements and gets their rows back.

A script knows no driver, no await and no thread; so one text of each transaction serves SQLite,
PostgreSQL, a caller's own connection and the simulator.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")


class Call(msgspec.Struct, frozen=True, gc=False):
    """Run this statement. `rows` fill its {rows: ...}, `params` its :names."""

    name: str
    params: dict[str, Any]
    rows: list[tuple[Any, ...]] | None = None


Rows: TypeAlias = list[Any]
Script: TypeAlias = Generator[Call, Rows, T]


def call(statement: str, **params: Any) -> Call:
    return Call(statement, params)


def call_rows(statement: str, rows: list[tuple[Any, ...]], **params: Any) -> Call:
    return Call(statement, params, rows)


def one(wanted: Call) -> Script[Rows]:
    """A script of a single call."""
    return (yield wanted)
