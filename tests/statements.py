"""Runs single named statements of a store, for tests that read or prepare rows."""

from __future__ import annotations

from typing import Any

from holdfast.store.script import StatementCall, call, one
from holdfast.store.store import Store


async def query(store: Store, statement: str, **params: Any) -> list[Any]:
    """Runs a statement that reads, and returns its rows."""
    return await store.read(lambda: one(call(statement, **params)))


async def execute(
    store: Store, statement: str, rows: list[tuple[Any, ...]] | None = None, **params: Any
) -> list[Any]:
    """Runs a statement that writes."""
    return await store._driver.write_one(lambda: one(StatementCall(statement, dict(params), rows)))
