"""The driver, dialect, ids and time that the parts of a store share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.core.ids import Ids
from holdfast.store.port import Dialect, Driver
from holdfast.store.script import Script, call, call_rows, one
from holdfast.store.watch import StoreWatch

T = TypeVar("T")


class Access:
    """Runs scripts for the parts of one store."""

    __slots__ = ("dialect", "driver", "ids", "now", "watch")

    def __init__(self, driver: Driver, dialect: Dialect, ids: Ids) -> None:
        self.driver = driver
        self.dialect = dialect
        self.ids = ids
        self.now = driver.now
        self.watch = StoreWatch()

    def mark(self) -> int:
        """A number that no other transaction has."""
        return self.ids.record(self.now())

    async def write(self, make: Callable[[], Script[T]]) -> T:
        """Runs a script that writes, in one transaction."""
        return await self.driver.write(make, mark=self.mark)

    async def run(self, make: Callable[[Dialect, Ids, float], Script[T]]) -> T:
        """Like `write`, for a script that needs the dialect, the ids and the time when it begins."""
        return await self.driver.write(
            lambda: make(self.dialect, self.ids, self.now()), mark=self.mark
        )

    async def rows(self, statement: str, **params: Any) -> list[Any]:
        """Runs a statement that only reads, and returns its rows."""
        return await self.driver.read(lambda: one(call(statement, **params)))

    async def read_rows(self, statement: str, given: list[tuple[Any, ...]]) -> list[Any]:
        """Like `rows`, for a statement that takes rows."""
        return await self.driver.read(lambda: one(call_rows(statement, given)))
