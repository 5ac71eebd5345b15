"""How a simulated node reaches the store: over the network, as with PostgreSQL.

Promises: a script goes as one message and its outcome as another; no answer in time is StoreUnavailable,
though the work may be done. The store's time is the server's, read off now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import apsw

from holdfast.clock import Clock
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.sim.net import Net
from holdfast.sim.server import NAME, Database
from holdfast.store.port import RowExists
from holdfast.store.script import Call, Rows, Script, one
from holdfast.store.server_clock import ServerClock

T = TypeVar("T")


class RemoteDriver:
    """See `holdfast.store.port.Driver`."""

    is_quick = False

    def __init__(
        self, node: str, net: Net, database: Database, clock: Clock, now: Callable[[], float]
    ) -> None:
        self._node = node
        self._net = net
        self._database = database
        self._clock = clock
        self._true_now = now
        self._theirs = ServerClock(clock)

    file = None

    def now(self) -> float:
        return self._theirs.now()

    def adopt(self, at: float) -> None:
        self._theirs.adopt(at)

    async def open(self) -> None:
        await self._read_off_clock()

    async def close(self) -> None:
        return

    async def warm_up(self, calls: Sequence[Call]) -> None:
        return

    async def write(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        return await self._run(lambda: self._database.run(make, self._node, self._true_now()))

    async def write_one(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        try:
            return await self.write(make)
        except apsw.ConstraintError as error:
            raise RowExists from error

    async def call(self, wanted: Call, *, small: bool = False) -> Rows:
        return await self.write_one(lambda: one(wanted))

    async def read(self, make: Callable[[], Script[T]]) -> T:
        return await self._run(lambda: self._database.read(make))

    async def carry(self, connection: object, make: Callable[[], Script[T]]) -> T:
        raise InvalidInput("a simulated node has no connection of its own")

    async def _run(self, serve: Callable[[], T]) -> T:
        """Once more after no answer, as the driver of PostgreSQL does."""
        if self._theirs.is_due():
            await self._read_off_clock()
        try:
            return await self._net.call(self._node, NAME, "script", serve)
        except StoreUnavailable:
            return await self._net.call(self._node, NAME, "script", serve)

    async def _read_off_clock(self) -> None:
        await self._theirs.read_off(
            lambda: self._net.call(self._node, NAME, "clock", self._database.driver.now)
        )
