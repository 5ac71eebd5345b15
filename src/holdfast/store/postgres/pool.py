"""A small pool of connections to PostgreSQL, for one event loop.

Promises: a broken connection is closed and never lent again. A connection that goes silent is detected
(`watch`). The loops and runners of an engine have reserved connections. Every wait for a connection has a
limit. Never: more than `size` connections, except the one that checks silent ones.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from holdfast.errors import HoldfastError, StoreBusy
from holdfast.forks import forget
from holdfast.store.port import Rank
from holdfast.store.postgres import connection as postgres
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.lock_retries import LockRetries
from holdfast.store.postgres.watch import SilenceWatch

LOOPS, RUNNERS, CALLERS = Rank
RESERVED: Final = 3
"""Connections reserved for an engine: to claim, to complete, and for upkeep. Its runners may use one of
them."""
CLOSE_SECONDS: Final = 2.0
"""How long a connection may take to close."""
WAIT_SECONDS: Final = 30.0
"""The longest wait for a connection."""


class ConnectionPool:
    """At most `size` connections, opened when needed. The oldest idle connection is used first, so the
    frequent statements stay prepared on a few connections. Once an engine has asked for a connection, the
    last few are reserved for its loops and runners, which are served first."""

    def __init__(
        self,
        dsn: str,
        size: int,
        greet: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> None:
        self._dsn = dsn
        self._greet = greet
        self._idle: list[tuple[int, Connection]] = []
        """Idle connections with their age, the oldest last."""
        self._ages: dict[Connection, int] = {}
        self._made = 0
        self._free = size
        self._reserve = min(RESERVED, size - 1)
        self._has_engine = False
        self._lent = [0] * len(Rank)
        """The number of lent connections, by rank."""
        self._ranks: dict[Connection, Rank] = {}
        """The ranks of the lent connections."""
        self._lines = [deque[asyncio.Future[None]]() for _ in Rank]
        self._closed = False
        self.patience = LockRetries()
        self._watch = SilenceWatch(
            lambda: postgres.connect(dsn),
            postgres.SETTINGS["application_name"],
            postgres.COMMAND_SECONDS,
        )

    @asynccontextmanager
    async def connection(self, *, rank: Rank = CALLERS) -> AsyncIterator[Connection]:
        """Lends a connection. It is closed if it broke."""
        connection = await self.take(rank=rank)
        try:
            yield connection
        except BaseException as error:
            self.back(connection, error)
            raise
        self.back(connection)

    async def take(self, *, rank: Rank = CALLERS) -> Connection:
        """Lends a connection, which the caller must give `back`. Raises StoreBusy if none became free."""
        if self._may_take(rank):
            self._lend(rank)
        else:
            await self._wait(rank)
        try:
            connection = self._idle_one() or await self._connect()
        except BaseException:
            self._release(rank)
            raise
        self._ranks[connection] = rank
        self._watch.lent(connection)
        return connection

    def _may_take(self, rank: Rank) -> bool:
        if rank is LOOPS:
            self._has_engine = True
            return self._free > 0 and not self._lines[rank]
        return self._free > self._reserved(rank) and not self._lines[rank]

    def _reserved(self, rank: Rank) -> int:
        """How many free connections are reserved for ranks before this one. One is for a runner, the others
        are for the loops."""
        if not self._has_engine or rank is LOOPS:
            return 0
        has_runner = rank is RUNNERS or self._lent[RUNNERS] > 0
        return max(0, self._reserve - self._lent[LOOPS] - has_runner)

    def _lend(self, rank: Rank) -> None:
        self._free -= 1
        self._lent[rank] += 1

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

    def take_idle(self, *, rank: Rank = CALLERS) -> Connection | None:
        """Like `take`, but returns None if no connection is idle or other callers wait."""
        if not self._may_take(rank) or (connection := self._idle_one()) is None:
            return None
        self._free -= 1
        self._lent[rank] += 1
        self._ranks[connection] = rank
        self._watch.lent(connection)
        return connection

    def back_idle(self, connection: Connection) -> None:
        """Like `back`, for a connection that has run a statement outside a transaction. `take` sees whether
        it is closed."""
        rank = self._ranks.pop(connection)
        self._watch.back(connection)
        if self._closed:
            self._end(connection)
        else:
            self._put_idle(connection)
        self._release(rank)

    def back(self, connection: Connection, error: BaseException | None = None) -> None:
        """Takes a lent connection back. `error`: the exception that was raised while it was lent."""
        rank = self._ranks.pop(connection)
        self._watch.back(connection)
        match error:
            case None:
                self._keep(connection)
            case _ if isinstance(error, postgres.GONE):
                # The idle connections are probably lost too.
                self._end(connection)
                while self._idle:
                    self._end(self._idle.pop()[1])
            case HoldfastError() | asyncpg.PostgresError():
                # The server refused a statement. The transaction was rolled back, the connection is intact.
                self._keep(connection)
            case _:
                # The connection may be in any state.
                self._end(connection)
        self._release(rank)

    def _keep(self, connection: Connection) -> None:
        if self._closed or connection.is_closed() or connection.is_in_transaction():
            self._end(connection)
        else:
            self._put_idle(connection)

    def _put_idle(self, connection: Connection) -> None:
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

    async def _wait(self, rank: Rank) -> None:
        """Waits until a connection is lent to this caller, in order of arrival within its rank."""
        line = self._lines[rank]
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        limit = asyncio.timeout(WAIT_SECONDS)
        try:
            async with limit:
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._release(rank)  # The connection was lent, but the caller was cancelled.
            if isinstance(error, TimeoutError) and limit.expired():
                raise self._none_free(rank) from None
            raise
        finally:
            if turn in line:
                line.remove(turn)

    def _none_free(self, rank: Rank) -> StoreBusy:
        return StoreBusy(
            f"none of this process's connections to PostgreSQL became free for {WAIT_SECONDS:g} s "
            f"({sum(self._lent)} in use, {len(self._lines[rank])} calls wait): nothing was changed; "
            "make fewer calls at once, or use more processes. Find slow statements in pg_stat_activity, "
            "application_name 'holdfast'"
        )

    def _release(self, rank: Rank) -> None:
        """Frees a connection and lends it to the caller that has waited longest in the first rank."""
        self._free += 1
        self._lent[rank] -= 1
        loops, runners, callers = self._lines
        if not (callers or runners or loops):
            return
        for waiting, line in (LOOPS, loops), (RUNNERS, runners), (CALLERS, callers):
            while line and self._free > self._reserved(waiting):
                turn = line.popleft()
                if not turn.done():
                    self._lend(waiting)
                    turn.set_result(None)
                    return

    def terminate_idle(self) -> None:
        """Closes the idle connections while the event loop, which ends, can still do so."""
        while self._idle:
            self._end(self._idle.pop()[1])

    def forget(self) -> None:
        """Drops the connections of an event loop that has ended or belongs to another process."""
        self._closed = True
        for connection in self._ages:
            forget(connection)

    async def close(self) -> None:
        self._closed = True
        await self._watch.close()
        idle = [connection for _, connection in self._idle]
        self._idle.clear()
        for connection in idle:
            self._ages.pop(connection, None)
        # At once: each one takes its whole time if the server does not answer.
        await asyncio.gather(*map(_close, idle))


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except postgres.GONE:
        connection.terminate()
