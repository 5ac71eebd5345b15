"""Which database a connection leads to.

The identity is the cluster, its timeline, the database and the table. A restored database and a promoted
standby have another one: what was committed after the backup may be gone, so the feed gets a new epoch. A
connection of a caller that is to carry an enqueue must have the same one, or the task would land elsewhere.
A role may lack the right to see the first two; what one side does not know makes no difference.

Promises: asks for nothing that a role may not see, and needs no table, so the question never breaks a
caller's transaction; roles with different rights that use one database agree on it.
"""

from __future__ import annotations

from typing import Any, Final
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


PARTS: Final = 4
"""Cluster, timeline, database, table; each is empty where it is not known."""


def is_other(one: str, two: str) -> bool:
    """Whether both know a part, and know it differently."""
    return any(a and b and a != b for a, b in zip(_parts(one), _parts(two), strict=True))


def merged(before: str, found: str) -> str:
    """What is known of a database after an answer. Another database has nothing of the old one; of the same
    one, nothing that was known is lost."""
    if is_other(before, found):
        return found
    known = [new or old for old, new in zip(_parts(before), _parts(found), strict=True)]
    return "-".join(known).removeprefix("--")


def _parts(identity: str) -> list[str]:
    """The first ones are left out where the role may not see them."""
    parts = identity.split("-")
    return [""] * (PARTS - len(parts)) + parts


class Identity:
    """Of one driver's database."""

    def __init__(self) -> None:
        self._is_hidden = False
        self._known = ""
        self._stored = ""
        self._proved: WeakSet[postgres.Connection] = WeakSet()

    async def adopt(self, connection: postgres.Connection) -> None:
        """Learns the identity from a connection of ours; the feed gets a new epoch if it was another one."""
        try:
            found = await self._ask(connection)
        except HIDDEN:
            self._is_hidden = True
            found = await self._ask(connection)
        if found:
            await self._store(connection, found)
        if found != self._known:
            # A connection that led to the same database as the old one leads to another one now.
            self._proved.clear()
        self._known = found or ""

    async def _store(self, connection: postgres.Connection, found: str) -> None:
        """Compares with what stands in the feed's head, until that is what was compared and stays."""
        while True:
            before, wanted = self._stored, merged(self._stored, found)
            adopting = call(
                "adopt_feed", before=before, identity=wanted, is_other=is_other(before, found)
            )
            self._stored = (await postgres.execute(connection, adopting))[0][0]
            if before == self._stored == wanted:
                return

    async def is_same(self, connection: postgres.Connection) -> bool:
        """Whether a caller's connection leads to the same tables; asked once for each."""
        if connection in self._proved:
            return True
        found = await self._ask(connection)
        if not found or is_other(found, self._known):
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
        is_whole = not self._is_hidden and await _first(connection, "may_identify")
        found: str | None = await _first(connection, "identity" if is_whole else "identity_here")
        return found


async def _first(connection: postgres.Connection, question: str) -> Any:
    return (await postgres.execute(connection, call(question)))[0][0]
