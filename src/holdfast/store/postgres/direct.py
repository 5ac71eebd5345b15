"""A connection on which a frequent statement takes the shortest way.

The public calls of asyncpg look up the statement, guard the connection against a second user and start a
timer. For a statement for which a caller waits, that is a tenth of the client's time. Promises: the same
errors as `fetch`. Never: takes this way with a version of asyncpg that it was not written for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import asyncpg
from asyncpg.protocol import NO_TIMEOUT

if TYPE_CHECKING:
    _Base: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    _Base = asyncpg.Connection

KNOWN: Final = frozenset({"0.31", "0.32"})
"""Versions of asyncpg whose protocol is called directly."""
IS_KNOWN: Final = asyncpg.__version__.rpartition(".")[0] in KNOWN


class DirectConnection(_Base):
    """See `asyncpg.Connection`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._frequent: dict[str, Any] = {}
        """Prepared statements by their text."""
        self.has_no_timer = False
        """A statement is in progress that `watch.py` has to limit."""

    async def run_frequent(self, text: str, values: tuple[Any, ...]) -> None:
        """Runs a statement that returns no rows."""
        prepared: Any = self._frequent.get(text)
        if prepared is None:
            prepared = self._frequent[text] = await self.prepare(text)
        if not IS_KNOWN:
            await prepared.fetch(*values)
            return
        self.has_no_timer = True
        try:
            protocol: Any = getattr(self, "_protocol")  # noqa: B009 - the stubs do not have it
            await protocol.bind_execute(prepared._state, values, "", 0, False, NO_TIMEOUT)
        finally:
            self.has_no_timer = False
