"""Detects silent connections, which are open on this side but will never deliver an answer.

If a firewall drops a connection or a cable is pulled, the kernel notices after minutes, and a time limit
cannot tell silence from a slow statement. When a connection is lent for long, another connection therefore
asks the server what its backend does. A backend that waits for the client, while the client waits for an
answer, will wait for ever.

Promises: a statement that the server works on is not interrupted within its time limit. A silent connection
is ended on both sides, some seconds after it went silent. A statement without a timer
(`DirectConnection.has_no_timer`) ends with its connection, soon after its time limit, on the server too if
that can be reached. Never: queries the server while all answers are quick, or ends a silent connection
without proof.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import asyncpg

from holdfast.errors import HoldfastError

SILENT_SECONDS: Final = 2.0
ASK_SECONDS: Final = 5.0
SILENT: Final = """
SELECT pid, pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE pid = ANY($1::int[]) AND application_name = $2 AND wait_event = 'ClientRead'
    AND state_change < clock_timestamp() - make_interval(secs => $3)
"""
"""An "active" backend may also wait for its client, between the parts of a prepared statement. A pooler in
between reports process ids that no backend has. The query then returns no rows, and no connection is
ended."""
OVERDUE: Final = """
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE pid = ANY($1::int[]) AND application_name = $2 AND state = 'active'
    AND query_start < clock_timestamp() - make_interval(secs => $3)
"""
"""The server notices that a client has left only when it answers. The statement would still be committed."""
log = logging.getLogger("holdfast.store")

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class SilenceWatch:
    """Watches the lent connections of a pool."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        application: str,
        limit_seconds: float,
    ) -> None:
        """`limit_seconds`: of a statement."""
        self._connect = connect
        self._limit_seconds = limit_seconds
        self._application = application
        self._out: dict[Connection, float] = {}
        self._overdue: list[int] = []
        """Process ids of backends whose statements took too long."""
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None

    def lent(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        self._out[connection] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(SILENT_SECONDS, self._look)

    def back(self, connection: Connection) -> None:
        self._out.pop(connection, None)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def _look(self) -> None:
        self._timer = None
        if not (self._out or self._overdue):
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SILENT_SECONDS, self._look)
        self._end_overdue(loop.time() - self._limit_seconds)
        if self._asking is None and (self._overdue or self._long_out()):
            self._asking = loop.create_task(self._ask(), name="holdfast-watch")
            self._asking.add_done_callback(self._asked)

    def _end_overdue(self, before: float) -> None:
        """Ends statements without a timer whose connections were lent before this time."""
        for connection, since in list(self._out.items()):
            if since < before and getattr(connection, "has_no_timer", False):
                log.warning("a statement took too long, and its connection to PostgreSQL is closed")
                self._overdue.append(connection.get_server_pid())
                connection.terminate()

    def _long_out(self) -> dict[int, Connection]:
        """The connections that are lent for long, by the process id of the backend."""
        before = asyncio.get_running_loop().time() - SILENT_SECONDS
        return {
            connection.get_server_pid(): connection
            for connection, since in self._out.items()
            if since <= before and not connection.is_closed()
        }

    async def _ask(self) -> None:
        overdue, self._overdue = self._overdue, []
        async with asyncio.timeout(ASK_SECONDS):
            other = await self._connect()
            try:
                if overdue:
                    await other.execute(
                        OVERDUE, overdue, self._application, self._limit_seconds / 2
                    )
                # Connecting took time: meanwhile answers may have arrived.
                suspects = self._long_out()
                rows = await other.fetch(
                    SILENT, list(suspects), self._application, SILENT_SECONDS / 2
                )
            finally:
                other.terminate()
        for row in rows:
            log.warning("a connection to PostgreSQL went silent and is closed")
            suspects[row[0]].terminate()

    def _asked(self, asking: asyncio.Task[None]) -> None:
        self._asking = None
        if asking.cancelled():
            return
        match asking.exception():
            case None:
                pass
            case (
                OSError()
                | HoldfastError()
                | asyncpg.PostgresError()
                | asyncpg.InterfaceError() as no
            ):
                log.debug("the server did not report on slow statements: %s", no)
            case error:
                raise error
