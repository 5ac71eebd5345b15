"""How a simulated node reaches the store: over the network, as with PostgreSQL.

Promises: a script goes as one message and its outcome as another; no answer in time is StoreUnavailable,
though the work may be done. The store's time is the server's, read off now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import apsw

from holdfast.clock import Clock
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.sim.net import Net
from holdfast.sim.server import NAME, Database
from holdfast.store.port import RowExists
from holdfast.store.script import Script

T = TypeVar("T")
CLOCK_SECONDS: Final = 5.0
SURE_SECONDS: Final = 0.2
AGAIN_SECONDS: Final = 1.0


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
        self._offset = 0.0
        self._read_off_at = float("-inf")
        self._high_water = 0.0

    def version(self) -> int:
        return 0

    def now(self) -> float:
        self._high_water = max(self._high_water, self._clock.monotonic() + self._offset)
        return self._high_water

    def reading(self) -> float:
        return self._clock.monotonic() + self._offset

    async def open(self) -> None:
        await self._read_off_clock()

    async def close(self) -> None:
        return

    async def write(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        return await self._run(make)

    async def write_one(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        try:
            return await self._run(make)
        except apsw.ConstraintError as error:
            raise RowExists from error

    async def read(self, make: Callable[[], Script[T]]) -> T:
        return await self._run(make)

    async def carry(self, connection: object, make: Callable[[], Script[T]]) -> T:
        raise InvalidInput("a simulated node has no connection of its own")

    async def _run(self, make: Callable[[], Script[T]]) -> T:
        """Once more after no answer, as the driver of PostgreSQL does."""
        if self._clock.monotonic() - self._read_off_at > CLOCK_SECONDS:
            await self._read_off_clock()
        try:
            return await self._once(make)
        except StoreUnavailable:
            return await self._once(make)

    async def _once(self, make: Callable[[], Script[T]]) -> T:
        return await self._net.call(
            self._node,
            NAME,
            "script",
            lambda: self._database.run(make, self._node, self._true_now()),
        )

    async def _read_off_clock(self) -> None:
        before = self._clock.monotonic()
        theirs = await self._net.call(self._node, NAME, "clock", self._database.driver.now)
        after = self._clock.monotonic()
        is_first, is_sure = self._high_water == 0.0, after - before <= SURE_SECONDS
        if is_first or is_sure:
            self._offset = theirs - (before + after) / 2
        self._read_off_at = after if is_sure else after - CLOCK_SECONDS + AGAIN_SECONDS
