"""The identity of the database that a connection leads to.

The identity consists of the cluster, its timeline, the database and the table. A restored database and a
promoted standby have another identity. Commits after the backup may be lost there, so the feed gets a new
epoch. An enqueue in a caller's transaction requires a connection with the same identity. A role may lack the
privilege to read the cluster and the timeline. A part that one side cannot read is not compared.

Promises: queries nothing that needs a privilege and no table, so it never breaks a caller's transaction.
Roles with different privileges on one database agree about it.
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
"""Errors of a hosted service that hides its control data."""


PARTS: Final = 4
"""Cluster, timeline, database, table. A part is empty if it could not be read."""


def is_other(one: str, two: str) -> bool:
    """Whether a part that both identities have differs."""
    return any(a and b and a != b for a, b in zip(_parts(one), _parts(two), strict=True))


def merged(before: str, current: str) -> str:
    """The identity after a reading. For the same database, parts of both are combined. Another database
    replaces the old one."""
    if is_other(before, current):
        return current
    parts = [new or old for old, new in zip(_parts(before), _parts(current), strict=True)]
    return "-".join(parts).removeprefix("--")


def _parts(identity: str) -> list[str]:
    """Splits an identity. It starts with the database if the role may not read the first two parts."""
    parts = identity.split("-")
    return [""] * (PARTS - len(parts)) + parts


class Identity:
    """The identity of the database of one driver."""

    def __init__(self) -> None:
        self._is_hidden = False
        self._current = ""
        self._stored = ""
        self._proved: WeakSet[postgres.Connection] = WeakSet()

    async def adopt(self, connection: postgres.Connection) -> None:
        """Reads the identity on a connection of the driver. The feed gets a new epoch if it has changed."""
        try:
            current = await self._ask(connection)
        except HIDDEN:
            self._is_hidden = True
            current = await self._ask(connection)
        if current:
            await self._store(connection, current)
        if current != self._current:
            # Connections of callers were compared with the old identity.
            self._proved.clear()
        self._current = current or ""

    async def _store(self, connection: postgres.Connection, current: str) -> None:
        """Stores the identity in the head of the feed. Repeats the update until no other process has changed
        the head in between."""
        while True:
            before, after = self._stored, merged(self._stored, current)
            adopting = call(
                "adopt_feed", before=before, identity=after, is_other=is_other(before, current)
            )
            self._stored = (await postgres.execute(connection, adopting))[0][0]
            if before == self._stored == after:
                return

    async def is_same(self, connection: postgres.Connection) -> bool:
        """Whether a caller's connection leads to the same tables. Queried once for each connection."""
        if connection in self._proved:
            return True
        identity = await self._ask(connection)
        if not identity or is_other(identity, self._current):
            return False
        self._proved.add(connection)
        return True

    async def check(self, connection: postgres.Connection) -> None:
        if not await self.is_same(connection):
            raise InvalidInput(
                "the connection leads to another database or another schema than this store: pass one that "
                "was opened with the address of the store"
            )

    async def _ask(self, connection: postgres.Connection) -> str | None:
        is_whole = not self._is_hidden and await _first(connection, "may_identify")
        identity: str | None = await _first(connection, "identity" if is_whole else "identity_here")
        return identity


async def _first(connection: postgres.Connection, statement: str) -> Any:
    return (await postgres.execute(connection, call(statement)))[0][0]
