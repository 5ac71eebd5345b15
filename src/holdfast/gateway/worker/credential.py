"""The credential of an open connection, checked while the connection lasts.

Promises: a credential that does not count any more ends its connection: at the next check, which follows each
renewal, each change of tokens, and `RECHECK_SECONDS`. A store that is away ends no connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from holdfast.clock import Clock
from holdfast.core.errors import Forbidden, NodeFenced, Unauthenticated
from holdfast.errors import HoldfastError, StoreUnavailable

RECHECK_SECONDS: Final = 60.0
"""How often the credential of an open connection is checked."""
Recheck: TypeAlias = Callable[[str], Awaitable[object]]
"""Checks the credential of the connection again, or the one that it got in `Welcome` (empty: none). Raises
Unauthenticated, Forbidden or NodeFenced."""


class CredentialWatch:
    """Checks the credential of one connection."""

    def __init__(
        self,
        clock: Clock,
        recheck: Recheck,
        on_lost: Callable[[HoldfastError], None],
        on_joined: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_joined` gets the name of the node that a join token has made."""
        self.issued = ""
        """The credential that the worker got in `Welcome`."""
        self._clock = clock
        self._recheck = recheck
        self._on_lost = on_lost
        self._on_joined = on_joined
        self._is_due = asyncio.Event()

    def joined(self, credential: str, node: str) -> None:
        """The worker gets this credential in `Welcome`. Empty: it has one."""
        if credential:
            self.issued = credential
            self._on_joined(node)

    def soon(self) -> None:
        """Credentials were changed."""
        self._is_due.set()

    async def check(self) -> bool:
        """Whether the credential still counts."""
        try:
            await self._recheck(self.issued)
        except (Unauthenticated, Forbidden, NodeFenced) as error:
            self._on_lost(error)
            return False
        return True

    async def run(self) -> None:
        while True:
            await self._clock.wait(self._is_due, RECHECK_SECONDS)
            self._is_due.clear()
            try:
                if not await self.check():
                    return
            except StoreUnavailable:
                continue  # checked again later


async def always(_: str) -> None:
    """A credential that is not checked again."""
