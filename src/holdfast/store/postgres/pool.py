"""A small pool of connections to PostgreSQL, for one event loop.

Promises: a broken connection is thrown away and never handed out again; one that goes silent is found
(`watch`); callers that wait for locks leave the engine the connections that it needs. Never: more connections
than allowed, but for the one that asks about others.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from holdfast.errors import HoldfastError
from holdfast.forks import forget
from holdfast.store.postgres import connection as postgres
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.watch import Watch

RESERVED: Final = 3
"""Connections that callers leave to the engine: to claim, to complete, to keep house."""


class Pool:
    """At most `size` connections, made when needed. Of those that idle the oldest is handed out: so the
    statements of every day are prepared on the first few, and a rush leaves nobody with a fresh one. Once an
    engine has asked for one (`first`), the last few are kept for it, and it is served before callers."""

    def __init__(
        self,
        dsn: str,
        size: int,
        greet: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> None:
        self._dsn = dsn
        self._greet = greet
        self._idle: list[tuple[int, Connection]] = []
        """The oldest last."""
        self._ages: dict[Connection, int] = {}
        self._made = 0
        self._free = size
        self._reserve = min(RESERVED, size - 1)
        self._has_engine = False
        self._first_count = 0
        """How many are lent to the engine."""
        self._firsts: set[Connection] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._waiting_first: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._watch = Watch(lambda: postgres.connect(dsn), postgres.SETTINGS["application_name"])

    @asynccontextmanager
    async def connection(self, *, first: bool = False) -> AsyncIterator[Connection]:
        """A connection for the caller alone; it is thrown away if it broke."""
        connection = await self.take(first=first)
        try:
            yield connection
        except BaseException as error:
            self.back(connection, error)
            raise
        self.back(connection)

    async def take(self, *, first: bool = False) -> Connection:
        """A connection for the caller alone, who gives it `back` in any case. `first`: for an engine."""
        if self._may_take(first=first):
            self._lend(first=first)
        else:
            await self._wait(first=first)
        try:
            connection = self._idle_one() or await self._connect()
        except BaseException:
            self._release(first=first)
            raise
        if first:
            self._firsts.add(connection)
        self._watch.lent(connection)
        return connection

    def _may_take(self, *, first: bool) -> bool:
        if first:
            self._has_engine = True
            return self._free > 0 and not self._waiting_first
        return self._free > self._kept and not self._waiting

    @property
    def _kept(self) -> int:
        """How many of the free ones callers may not take."""
        return max(0, self._reserve - self._first_count) if self._has_engine else 0

    def _lend(self, *, first: bool) -> None:
        self._free -= 1
        self._first_count += first

    async def _connect(self) -> Connection:
        connection = await postgres.connect(self._dsn)
        if self._greet is not None:
            try:
                await self._greet(connection)
            except BaseException:
                connection.terminate()
                raise
        self._made += 1
        self._ages[connection] = -self._made
        return connection

    def take_idle(self, *, first: bool = False) -> Connection | None:
        """The same, if one is there and no other caller waits for it."""
        if not self._may_take(first=first) or (connection := self._idle_one()) is None:
            return None
        self._free -= 1
        if first:
            self._first_count += 1
            self._firsts.add(connection)
        self._watch.lent(connection)
        return connection

    def back(self, connection: Connection, error: BaseException | None = None) -> None:
        """With what went wrong on it, if anything did."""
        if first := connection in self._firsts:
            self._firsts.remove(connection)
        self._watch.back(connection)
        match error:
            case None:
                self._keep(connection)
            case _ if isinstance(error, postgres.GONE):
                # Those that idle are most likely as dead.
                self._end(connection)
                while self._idle:
                    self._end(self._idle.pop()[1])
            case HoldfastError() | asyncpg.PostgresError():
                # A refusal: its transaction was rolled back, the connection itself is sound.
                self._keep(connection)
            case _:
                # It may be in the middle of anything.
                self._end(connection)
        self._release(first=first)

    def _keep(self, connection: Connection) -> None:
        if self._closed or connection.is_closed() or connection.is_in_transaction():
            self._end(connection)
        else:
            insort(self._idle, (self._ages[connection], connection))

    def _end(self, connection: Connection) -> None:
        self._ages.pop(connection, None)
        connection.terminate()

    def _idle_one(self) -> Connection | None:
        while self._idle:
            _, connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._ages.pop(connection, None)
        return None

    async def _wait(self, *, first: bool) -> None:
        """Until one is lent to this caller: first come, first served."""
        line = self._waiting_first if first else self._waiting
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._release(first=first)  # The turn came, but its caller has gone.
            raise
        finally:
            if turn in line:
                line.remove(turn)

    def _release(self, *, first: bool) -> None:
        """One more may take a connection: the engine, or the caller that has waited longest."""
        self._free += 1
        self._first_count -= first
        if not self._waiting and not self._waiting_first:
            return
        for line in (self._waiting_first, self._waiting):
            is_first = line is self._waiting_first
            while line and self._free > (0 if is_first else self._kept):
                turn = line.popleft()
                if not turn.done():
                    self._lend(first=is_first)
                    turn.set_result(None)
                    return

    def terminate_idle(self) -> None:
        """The event loop ends: what is not out is closed while that can be done."""
        while self._idle:
            self._end(self._idle.pop()[1])

    def forget(self) -> None:
        """For a pool whose event loop has ended, or is another process's."""
        self._closed = True
        for connection in self._ages:
            forget(connection)

    async def close(self) -> None:
        self._closed = True
        await self._watch.close()
        while self._idle:
            _, connection = self._idle.pop()
            self._ages.pop(connection, None)
            try:
                await connection.close(timeout=2)
            except postgres.GONE:
                connection.terminate()
