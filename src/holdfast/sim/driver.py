"""How a simulated node reaches the store: over the network, as with PostgreSQL.

Promises: a script goes as one message and its outcome as another; no answer in time is StoreUnavailable,
though the work may be done. The store's time is the server's, read off now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Self, TypeVar

import apsw

from holdfast.clock import Clock
from holdfast.errors import HoldfastError, InvalidInput, StoreUnavailable
from holdfast.sim.net import Net
from holdfast.sim.server import NAME, Database
from holdfast.store.port import HELD_SECONDS, Rank, RowExists
from holdfast.store.script import Rows, Script, StatementCall, one
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

    def reserved(self, rank: Rank) -> Self:
        return self

    def holds_up(self, connection: object) -> bool:
        return False

    def now(self) -> float:
        return self._theirs.now()

    def adopt(self, at: float) -> None:
        self._theirs.adopt(at)

    async def open(self) -> None:
        await self._read_off_clock()

    async def close(self) -> None:
        return

    async def warm_up(self, calls: Sequence[StatementCall]) -> None:
        return

    async def write(
        self,
        make: Callable[[], Script[T]],
        *,
        small: bool = False,
        mark: Callable[[], int] | None = None,
        wait_seconds: float = HELD_SECONDS,
    ) -> T:
        def serve() -> T:
            return self._database.run(make, self._node, self._true_now())

        return await (self._run(serve) if mark is None else self._run_marked(serve))

    async def write_one(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        try:
            return await self.write(make)
        except apsw.ConstraintError as error:
            raise RowExists from error

    async def call(self, wanted: StatementCall, *, small: bool = False) -> Rows:
        return await self.write_one(lambda: one(wanted))

    async def read(self, make: Callable[[], Script[T]]) -> T:
        return await self._run(lambda: self._database.read(make))

    async def snapshot(self, make: Callable[[], Script[T]]) -> T:
        return await self.read(make)

    async def run_in_tx(
        self,
        connection: object,
        make: Callable[[], Script[T]],
        *,
        may_clash: bool = False,
        limit_seconds: float | None = None,
    ) -> T:
        raise InvalidInput("a simulated node has no connection of its own")

    async def _run(self, serve: Callable[[], T]) -> T:
        """Once more after no answer, as the driver of PostgreSQL does."""
        if self._theirs.is_due():
            await self._read_off_clock()
        try:
            return await self._net.call(self._node, NAME, "script", serve)
        except StoreUnavailable:
            return await self._net.call(self._node, NAME, "script", serve)

    async def _run_marked(self, serve: Callable[[], T]) -> T:
        """After no answer the server is asked what became of it, as the driver of PostgreSQL does."""
        if self._theirs.is_due():
            await self._read_off_clock()
        once = _Once(serve)
        try:
            return await self._net.call(self._node, NAME, "script", once.run)
        except StoreUnavailable:
            if await self._net.call(self._node, NAME, "proof", once.was_committed):
                return once.run()
        return await self._net.call(self._node, NAME, "script", _Once(serve).run)

    async def _read_off_clock(self) -> None:
        await self._theirs.read_off(
            lambda: self._net.call(self._node, NAME, "clock", self._database.driver.now)
        )


class _Once(Generic[T]):
    """A transaction that is run at most once, however often it is asked for, and remembers its outcome."""

    def __init__(self, serve: Callable[[], T]) -> None:
        self._serve = serve
        self._is_begun = False
        self._answer: list[T] = []
        self._error: Exception | None = None

    def run(self) -> T:
        if not self._is_begun:
            self._is_begun = True
            try:
                self._answer.append(self._serve())
            except HoldfastError as error:
                self._error = error
        if self._error is not None:
            raise self._error
        if not self._answer:
            raise StoreUnavailable("the transaction was given up before it came here")
        return self._answer[0]

    def was_committed(self) -> bool:
        """False settles it: what is still on its way will not be run."""
        if self._is_begun and not self._answer and self._error is None:
            raise StoreUnavailable("the server died in the middle: what became of it is not known")
        self._is_begun = True
        return bool(self._answer) or self._error is not None
