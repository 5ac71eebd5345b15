"""The store driver of a simulated node: it reaches the database over the network, as with PostgreSQL.

Promises: a script is one message and its outcome another. A missing answer raises StoreUnavailable, though
the transaction may have committed. Store time is the server's clock, sampled now and then."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, Self, TypeVar

import apsw

from holdfast.clock import Clock
from holdfast.errors import HoldfastError, InvalidInput, StoreUnavailable
from holdfast.sim.net import Net
from holdfast.sim.server import NAME, Database
from holdfast.store.port import ROW_WAIT_SECONDS, Rank, RowExists
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
        self._server_clock = ServerClock(clock)
        self.now = self._server_clock.now
        self.adopt = self._server_clock.adopt

    file = None

    def reserved(self, rank: Rank) -> Self:
        return self

    def holds_up(self, connection: object) -> bool:
        return False

    async def open(self) -> None:
        await self._sample_clock()

    async def close(self) -> None:
        return

    async def warm_up(self, calls: Sequence[StatementCall]) -> None:
        return

    def write(
        self,
        make: Callable[[], Script[T]],
        *,
        small: bool = False,
        mark: Callable[[], int] | None = None,
        wait_seconds: float = ROW_WAIT_SECONDS,
    ) -> Coroutine[Any, Any, T]:
        prepare = partial(self._prepared, make)
        return self._run(prepare) if mark is None else self._run_marked(prepare)

    def _prepared(self, make: Callable[[], Script[T]]) -> Callable[[], T]:
        """The message of a transaction. For its node the transaction begins now, so the script is made now,
        even if the message arrives late. A duplicate is another transaction with another script."""
        made = [make()]

        def serve() -> T:
            return self._database.run(
                lambda: made.pop() if made else make(), self._node, self._true_now()
            )

        return serve

    async def write_one(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        try:
            return await self.write(make)
        except apsw.ConstraintError as error:
            raise RowExists from error

    def call(self, call: StatementCall, *, small: bool = False) -> Coroutine[Any, Any, Rows]:
        return self.write_one(lambda: one(call))

    def read(self, make: Callable[[], Script[T]]) -> Coroutine[Any, Any, T]:
        return self._run(lambda: partial(self._database.read, make))

    async def read_dated(self, statement: StatementCall) -> Rows:
        """The answer has the server's time beside the rows, and the calls of an idle worker need no other
        reading."""

        def serve() -> tuple[Rows, float]:
            return self._database.read(lambda: one(statement)), self._database.driver.now()

        before = self._server_clock.before()
        try:
            rows, server_at = await self._net.call(self._node, NAME, "script", serve)
        except StoreUnavailable:
            before = self._server_clock.before()
            rows, server_at = await self._net.call(self._node, NAME, "script", serve)
        self._server_clock.learn(server_at, before)
        return rows

    def snapshot(self, make: Callable[[], Script[T]]) -> Coroutine[Any, Any, T]:
        return self.read(make)

    async def run_in_tx(
        self,
        connection: object,
        make: Callable[[], Script[T]],
        *,
        may_clash: bool = False,
        limit_seconds: float | None = None,
    ) -> T:
        raise InvalidInput("a simulated node has no connection to run in")

    async def _run(self, prepare: Callable[[], Callable[[], T]]) -> T:
        """Retries once when no answer arrives, as the PostgreSQL driver does."""
        if self._server_clock.is_due():
            await self._sample_clock()
        try:
            return await self._net.call(self._node, NAME, "script", prepare())
        except StoreUnavailable:
            return await self._net.call(self._node, NAME, "script", prepare())

    async def _run_marked(self, prepare: Callable[[], Callable[[], T]]) -> T:
        """When no answer arrives, asks the server for the outcome, as the PostgreSQL driver does."""
        if self._server_clock.is_due():
            await self._sample_clock()
        once = _Once(prepare())
        try:
            return await self._net.call(self._node, NAME, "script", once.run)
        except StoreUnavailable:
            if await self._net.call(self._node, NAME, "proof", once.was_committed):
                return once.run()
        return await self._net.call(self._node, NAME, "script", _Once(prepare()).run)

    async def _sample_clock(self) -> None:
        ask = partial(self._net.call, self._node, NAME, "clock", self._database.driver.now)
        await self._server_clock.read_off(ask)


class _Once(Generic[T]):
    """A transaction that runs at most once and remembers its outcome."""

    def __init__(self, serve: Callable[[], T]) -> None:
        self._serve = serve
        self._started = False
        self._answer: list[T] = []
        self._error: Exception | None = None

    def run(self) -> T:
        if not self._started:
            self._started = True
            try:
                self._answer.append(self._serve())
            except HoldfastError as error:
                self._error = error
        if self._error is not None:
            raise self._error
        if not self._answer:
            raise StoreUnavailable("the transaction was abandoned before it reached the server")
        return self._answer[0]

    def was_committed(self) -> bool:
        """Whether it committed. After False it never runs: a message still in transit has no effect."""
        if self._started and not self._answer and self._error is None:
            raise StoreUnavailable("the server died during the transaction: its outcome is unknown")
        self._started = True
        return bool(self._answer) or self._error is not None
