"""Runs scripts on PostgreSQL.

Promises: a write is committed and synced before it is acknowledged. A transaction that loses a race
(deadlock, serialisation, the same key inserted twice) is run again. A transaction whose connection was lost
is run again once, and only if it was certainly not committed (`commits.py`). The store's time is the clock
of the server (`server_clock.py`), so a wrong local wall clock does not affect leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from copy import copy
from typing import Any, Final, Self, TypeVar

import asyncpg

from holdfast.clock import Clock
from holdfast.errors import BadConfig, DiskFull, HoldfastError, StoreBusy, StoreUnavailable
from holdfast.store.port import ROW_WAIT_SECONDS, Rank, RecordExists, RowExists, RowHeld
from holdfast.store.postgres import connection as postgres, in_tx
from holdfast.store.postgres.commits import CommitMarks, CommitProof, Unsure, was_committed
from holdfast.store.postgres.identity import Identity
from holdfast.store.postgres.lock_retries import BEGIN_BRIEFLY
from holdfast.store.postgres.migrate import migrate
from holdfast.store.postgres.pool import RESERVED
from holdfast.store.postgres.pools import LoopPools
from holdfast.store.script import Rows, Script, StatementCall, one
from holdfast.store.server_clock import ServerClock
from holdfast.store.store_clock import StoreClock

T = TypeVar("T")
TRIES: Final = 5
POOL_SIZE: Final = 8
SETTLE_SECONDS: Final = (0.1, 0.5, 1.0, 2.0)
"""Pauses between the probes of a commit whose answer was lost."""
RACES: Final = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.UniqueViolationError,
)


class PostgresDriver:
    """See `holdfast.store.port.Driver`."""

    def __init__(
        self,
        dsn: str,
        clock: Clock,
        *,
        server_time: bool = True,
        create: bool = True,
        size: int = POOL_SIZE,
    ) -> None:
        self._create = create
        self._pools = LoopPools(dsn, size)
        self._commits = CommitMarks()
        self._identity = Identity()
        self._theirs = ServerClock(clock)
        store_clock = self._theirs if server_time else StoreClock(clock.now, clock.monotonic)
        self.now = store_clock.now
        self.adopt = store_clock.adopt

    is_quick = False

    file = None

    _rank = Rank.CALLERS
    _begin = BEGIN_BRIEFLY

    def reserved(self, rank: Rank) -> Self:
        driver = copy(self)
        driver._rank = rank
        driver._begin = "BEGIN" if rank is Rank.LOOPS else BEGIN_BRIEFLY
        return driver

    def holds_up(self, connection: object) -> bool:
        return False

    async def open(self) -> None:
        try:
            async with self._pools.open().connection() as connection:
                await migrate(connection, create=self._create)
                await self._identity.adopt(connection)
                await self._read_off_clock(connection)
            # After a reconnect the server may be another one: a restored backup, or a promoted standby.
            self._pools.greet = self._identity.adopt
        except BaseException as error:
            await self.close()
            raise _not_opened(error) from error

    async def close(self) -> None:
        await self._pools.close()

    async def warm_up(self, calls: Sequence[StatementCall]) -> None:
        """Opens the reserved connections and prepares the statements on each. The first task then does not
        wait for connecting and planning."""
        pool = self._pools.here()
        if pool is None:
            raise StoreUnavailable("the PostgreSQL store is closed: open it first")
        try:
            async with AsyncExitStack() as stack:
                for _ in range(RESERVED):
                    taken = pool.connection(rank=self._rank)
                    connection = await stack.enter_async_context(taken)
                    rehearsal = connection.transaction()
                    await rehearsal.start()
                    for statement in calls:
                        await postgres.execute(connection, statement)
                    await rehearsal.rollback()
        except postgres.GONE as error:
            raise _gone(error) from error
        except postgres.STRAINED as error:
            raise _strained(error) from error

    def write(
        self,
        make: Callable[[], Script[T]],
        *,
        small: bool = False,
        mark: Callable[[], int] | None = None,
        wait_seconds: float = ROW_WAIT_SECONDS,
    ) -> Coroutine[Any, Any, T]:
        if self._rank is Rank.LOOPS:
            # Loops wait on the server: they wait for short transactions, and the server serves in order.
            return self._run(make, atomic=True, mark=mark)
        return self._run_patiently(make, mark, wait_seconds)

    def write_one(
        self, make: Callable[[], Script[T]], *, small: bool = False
    ) -> Coroutine[Any, Any, T]:
        return self._run(make, atomic=False)

    def call(self, statement: StatementCall, *, small: bool = False) -> Coroutine[Any, Any, Rows]:
        if self._theirs.is_due():
            return self._run(lambda: one(statement), atomic=False)
        return self._call(statement)

    async def read_dated(self, statement: StatementCall) -> Rows:
        # A reading is as good as its round trip is short, with or without other columns beside it.
        before = self._theirs.before()
        rows = await self._call(statement)
        self._theirs.learn(rows[0][-1], before)
        return rows

    async def _call(self, statement: StatementCall) -> Rows:
        pool = self._pools.here()
        if pool is None or (connection := pool.take_idle(rank=self._rank)) is None:
            return await self._run(lambda: one(statement), atomic=False)
        try:
            rows = await postgres.execute(connection, statement)
        except BaseException as error:
            pool.back(connection, error)
            if isinstance(error, asyncpg.UniqueViolationError):
                raise _exists(error) from error
            if isinstance(error, asyncpg.LockNotAvailableError):
                raise _strained(error) from error
            if not isinstance(error, (*RACES, *postgres.GONE, *postgres.STRAINED)):
                raise
        else:
            pool.back_idle(connection)
            return rows
        return await self._run(lambda: one(statement), atomic=False, tried=1)

    def read(self, make: Callable[[], Script[T]]) -> Coroutine[Any, Any, T]:
        return self._run(make, atomic=False)

    def snapshot(self, make: Callable[[], Script[T]]) -> Coroutine[Any, Any, T]:
        return self._run(make, atomic=False, snapshot=True)

    async def run_in_tx(
        self,
        connection: object,
        make: Callable[[], Script[T]],
        *,
        may_clash: bool = False,
        limit_seconds: float | None = None,
    ) -> T:
        caller = in_tx.checked(connection)
        with in_tx.translated():
            if not await self._identity.is_same(caller):
                await self._learn_identity()
                await self._identity.check(caller)
            async with asyncio.timeout(limit_seconds):
                if self._theirs.is_due():
                    await self._read_off_clock(caller)
                return await in_tx.run(caller, make, may_clash=may_clash)

    async def _learn_identity(self) -> None:
        """Reads the identity of the store again. It may have changed, e.g. by a promotion."""
        pool = self._pools.here()
        if pool is None:
            raise StoreUnavailable("the PostgreSQL store is closed: open it first")
        async with pool.connection() as connection:
            await self._identity.adopt(connection)

    async def _run_patiently(
        self, make: Callable[[], Script[T]], mark: Callable[[], int] | None, wait_seconds: float
    ) -> T:
        """Runs a script that waits for a row only briefly (`BEGIN_BRIEFLY`), and retries it for
        `wait_seconds`."""
        try:
            return await self._run(make, atomic=True, mark=mark)
        except RowHeld as held:
            pool = self._pools.here()
            if pool is None:
                raise
            return await pool.patience.outlast(
                held, lambda: self._run(make, atomic=True, mark=mark), wait_seconds=wait_seconds
            )

    async def _run(
        self,
        make: Callable[[], Script[T]],
        *,
        atomic: bool,
        mark: Callable[[], int] | None = None,
        tried: int = 0,
        snapshot: bool = False,
    ) -> T:
        """Runs a script. Retries it after a lost race, and once after a lost connection. A wait for a row
        that another transaction holds is not retried: it would take as long again."""
        for attempt in range(tried + 1, TRIES + 1):
            try:
                return await self._once(make, atomic=atomic, mark=mark, snapshot=snapshot)
            except RACES as error:
                last = not atomic or attempt == TRIES
                if last and isinstance(error, asyncpg.UniqueViolationError):
                    raise _exists(error) from error
                if attempt == TRIES:
                    raise
            except Unsure as unsure:
                if await self._was_committed(unsure.proof):
                    answer: T = unsure.answer
                    return answer
                if attempt > 1:
                    raise _gone(unsure.__cause__ or unsure) from unsure
            except StoreBusy:
                raise
            except StoreUnavailable:
                if attempt > 1:
                    raise
        raise AssertionError("unreachable")

    async def _once(
        self,
        make: Callable[[], Script[T]],
        *,
        atomic: bool,
        mark: Callable[[], int] | None,
        snapshot: bool,
    ) -> T:
        pool = self._pools.here()
        if pool is None:
            raise StoreUnavailable("the PostgreSQL store is closed: open it first")
        try:
            connection = await pool.take(rank=self._rank)
            try:
                if self._theirs.is_due():
                    await self._read_off_clock(connection)
                if atomic:
                    answer = await self._commits.run(connection, make(), mark, self._begin)
                elif snapshot:
                    async with connection.transaction(isolation="repeatable_read", readonly=True):
                        answer = await postgres.run(connection, make())
                else:
                    answer = await postgres.run(connection, make())
            except BaseException as error:
                pool.back(connection, error.__cause__ if isinstance(error, Unsure) else error)
                raise
            pool.back(connection)
            return answer
        except HoldfastError:
            raise
        except postgres.GONE as error:
            raise _gone(error) from error
        except postgres.STRAINED as error:
            raise _strained(error) from error

    async def _was_committed(self, proof: CommitProof) -> bool:
        """Probes the commit until the server answers, for some seconds."""
        for pause_seconds in (*SETTLE_SECONDS, None):
            pool = self._pools.here()
            try:
                if pool is not None:
                    async with pool.connection(rank=self._rank) as connection:
                        return await was_committed(connection, proof)
            except (StoreUnavailable, *postgres.GONE, *postgres.STRAINED) as error:
                if pause_seconds is None:
                    raise _unknown(error) from error
            if pause_seconds is not None:
                await asyncio.sleep(pause_seconds)
        raise _unknown(StoreUnavailable("the store was closed"))

    async def _read_off_clock(self, connection: postgres.Connection) -> None:
        question = "SELECT extract(epoch FROM clock_timestamp())::float8"
        await self._theirs.read_off(lambda: connection.fetchval(question))


def _not_opened(error: BaseException) -> BaseException:
    """The error of an open: typed if it comes from the driver."""
    match error:
        case HoldfastError():
            return error
        case _ if isinstance(error, postgres.GONE):
            return _gone(error)
        case _ if isinstance(error, postgres.STRAINED):
            return _strained(error)
        case asyncpg.DuplicatePreparedStatementError() | asyncpg.InvalidSQLStatementNameError():
            return BadConfig(
                "the connections are shared by a pooler in transaction mode, which is not supported: "
                "connect to PostgreSQL directly, or use session mode (docs/howto/postgresql.md)"
            )
        case asyncpg.PostgresError():
            return StoreUnavailable(f"PostgreSQL refused a statement that opens the store: {error}")
        case _:
            return error


def _exists(error: asyncpg.UniqueViolationError) -> RowExists:
    is_record = error.constraint_name == "holdfast_feed_pkey"
    return RecordExists() if is_record else RowExists()


def _unknown(error: BaseException) -> StoreUnavailable:
    return StoreUnavailable(
        "the connection to PostgreSQL was lost during a commit, and the server does not answer: whether the "
        f"change was made is unknown; check it before you repeat the call ({error!r})"
    )


def _gone(error: BaseException) -> StoreUnavailable:
    return StoreUnavailable(
        f"the connection to PostgreSQL was lost: try again when it is back ({error!r})"
    )


def _strained(error: asyncpg.PostgresError) -> StoreUnavailable:
    if isinstance(error, asyncpg.DiskFullError):
        return DiskFull(f"the disk of PostgreSQL is full: free some space ({error})")
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return postgres.lacking(error)
    if isinstance(error, asyncpg.LockNotAvailableError):
        return RowHeld(
            "another transaction is open and holds a row that is needed: try again when it has ended, or "
            f"find it in pg_stat_activity ({error})"
        )
    return StoreUnavailable(f"PostgreSQL cannot run the statement now: try again later ({error})")
