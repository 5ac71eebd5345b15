"""One pool of connections for each event loop that uses a store.

Promises: a connection is used only in the loop that opened it. The pool of a loop that has ended is dropped
without a call into that loop. A loop that `asyncio.run` ends leaves no idle connection behind. A forked child
inherits no pool. Never: more than `size` connections for each live loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.forks import PassiveFollower, follow
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.pool import ConnectionPool


class LoopPools(PassiveFollower):
    """The pools of one driver. Threads may share it, each with its own loop."""

    def __init__(self, dsn: str, size: int) -> None:
        self._dsn = dsn
        self._size = size
        self.greet: Callable[[Connection], Awaitable[None]] | None = None
        """Called once on each new connection, before its first use."""
        self._pools: dict[asyncio.AbstractEventLoop, ConnectionPool] = {}
        self._keepers: dict[ConnectionPool, asyncio.Task[None]] = {}
        self._inherited: list[object] = []
        """Pools of the parent process. They stay referenced, so their tasks do not unwind in this one."""
        follow(self)

    def here(self) -> ConnectionPool | None:
        """Returns the pool of the running loop, or None while no loop has the store open."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None and self._pools:
            pool = self._made(loop)
        return pool

    def open(self) -> ConnectionPool:
        loop = asyncio.get_running_loop()
        return self._pools.get(loop) or self._made(loop)

    async def close(self) -> None:
        """Closes the pool of the running loop."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        self._drop_ended()
        if pool is not None:
            self._keepers.pop(pool).cancel()
            await pool.close()

    def start_over(self) -> None:
        self._inherited += [self._pools, self._keepers]
        for pool in self._pools.values():
            pool.forget()
        for keeper in self._keepers.values():
            # asyncio has no public switch: it would log a destroyed task when the child ends.
            setattr(keeper, "_log_destroy_pending", False)  # noqa: B010 - typeshed does not have it
        self._pools, self._keepers = {}, {}

    def _made(self, loop: asyncio.AbstractEventLoop) -> ConnectionPool:
        self._drop_ended()
        pool = self._pools[loop] = ConnectionPool(self._dsn, self._size, self._greet)
        self._keepers[pool] = loop.create_task(_keep(pool), name="holdfast-pool")
        return pool

    async def _greet(self, connection: Connection) -> None:
        if self.greet is not None:
            await self.greet(connection)

    def _drop_ended(self) -> None:
        for loop, pool in list(self._pools.items()):
            if loop.is_closed():
                del self._pools[loop]
                self._keepers.pop(pool, None)
                pool.forget()


async def _keep(pool: ConnectionPool) -> None:
    """Waits until the loop ends and cancels its tasks. The idle connections can still be closed then."""
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        pool.terminate_idle()
