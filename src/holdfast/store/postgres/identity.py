"""Which database a connection leads to.

The identity is the cluster, its timeline, the database and the table. A restored database and a promoted
standby have another one: what was committed after the backup may be gone, so the feed gets a new epoch. A
connection of a caller that is to carry an enqueue must have the same one, or the task would land elsewhere.

Promises: asks without rights and without a table, so the question never breaks a caller's transaction.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

import asyncpg

from holdfast.errors import InvalidInput
from holdfast.store.postgres import connection as postgres
from holdfast.store.script import call

HIDDEN: Final = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.FeatureNotSupportedError,
    asyncpg.UndefinedFunctionError,
)
"""What a hosted service may answer to a question about its control data."""


class Identity:
    """Of one driver's database."""

    def __init__(self) -> None:
        self._question = "identity"
        self._known = ""
        self._proved: WeakSet[postgres.Connection] = WeakSet()

    async def adopt(self, connection: postgres.Connection) -> None:
        """Learns the identity from a connection of ours; the feed gets a new epoch if it was another one."""
        try:
            found = await self._ask(connection)
        except HIDDEN:
            self._question = "identity_here"
            found = await self._ask(connection)
        await postgres.execute(connection, call("adopt_feed", identity=found))
        if found != self._known:
            # A connection that led to the same database as the old one leads to another one now.
            self._proved.clear()
        self._known = found or ""

    async def is_same(self, connection: postgres.Connection) -> bool:
        """Whether a caller's connection leads to the same tables; asked once for each."""
        if connection in self._proved:
            return True
        if await self._ask(connection) != self._known:
            return False
        self._proved.add(connection)
        return True

    async def check(self, connection: postgres.Connection) -> None:
        if not await self.is_same(connection):
            raise InvalidInput(
                "the connection leads to another database than this store, or to another schema: pass one "
                "that was opened with the store's own address"
            )

    async def _ask(self, connection: postgres.Connection) -> str | None:
        found: str | None = (await postgres.execute(connection, call(self._question)))[0][0]
        return found
