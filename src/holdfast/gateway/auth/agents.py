"""Credentials of agents that this gateway holds something for: a poll over HTTP, or a WebSocket.

Promises: an agent whose credential has ended gets nothing more: what it waits for ends with the first look
after the commit, at whatever gateway that was made. One statement looks for all agents.
Never: counts on a hint: credentials are looked at every `LOOK_SECONDS` too, since they may expire.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.clock import Clock
from holdfast.core.errors import Unauthenticated
from holdfast.errors import StoreUnavailable
from holdfast.sync.access.tokens import Tokens

LOOK_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 1.0
"""The pause after a look that failed."""
PAUSE_FACTOR: Final = 4.0
PAUSE_SECONDS_MAX: Final = 5.0
"""The pause after a look is this multiple of what the look took, up to the second bound: many hosts that are
changed one by one bring a hint each."""
RECENT_SECONDS: Final = 5.0
"""A credential that was read before a change may be waited with this much later."""
DIGESTS_MAX: Final = 1_000
"""Credentials that one statement looks at."""
log: Final = logging.getLogger("holdfast.gateway")


class Watched:
    """The credential of one poll or connection."""

    __slots__ = ("is_lost", "on_lost")

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self.on_lost = on_lost
        self.is_lost = False

    def check(self) -> None:
        """Unauthenticated if the credential has ended."""
        if self.is_lost:
            raise Unauthenticated("the token is not valid any more: it was revoked or has expired")


class AgentCredentials:
    """Looks at the credentials of agents again when some have changed."""

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens, self._clock = tokens, clock
        self._watched: dict[str, dict[Watched, None]] = {}
        """By digest."""
        self._is_due = asyncio.Event()
        self._changed_at = -RECENT_SECONDS
        self._is_all = False
        """Whether all credentials are due, and not only those of `_late`."""
        self._late: set[str] = set()
        """Digests that an agent has begun to wait with since the last change."""

    @contextmanager
    def watching(self, digest: str, on_lost: Callable[[], None]) -> Iterator[Watched]:
        """Calls `on_lost` once when the credential ends. Without a digest there is nothing to watch."""
        watched = Watched(on_lost)
        if not digest:
            yield watched
            return
        self._watched.setdefault(digest, {})[watched] = None
        if self._clock.monotonic() - self._changed_at < RECENT_SECONDS:
            self._late.add(digest)
            self._is_due.set()
        try:
            yield watched
        finally:
            of_digest = self._watched[digest]
            del of_digest[watched]
            if not of_digest:
                del self._watched[digest]

    def soon(self) -> None:
        """Credentials were changed."""
        self._changed_at = self._clock.monotonic()
        self._is_all = True
        self._is_due.set()

    async def run(self) -> None:
        """Looks when it is due. Runs until it is cancelled."""
        pause = LOOK_SECONDS
        while True:
            await self._clock.wait(self._is_due, pause)
            self._is_due.clear()
            began_at = self._clock.monotonic()
            if not await self._has_looked():
                pause = AGAIN_SECONDS
                continue
            pause = LOOK_SECONDS
            if took := self._clock.monotonic() - began_at:
                await self._clock.sleep(min(PAUSE_SECONDS_MAX, took * PAUSE_FACTOR))

    async def _has_looked(self) -> bool:
        """Looks once. After a look that failed, all credentials are due."""
        try:
            await self._look()
        except StoreUnavailable:
            log.debug("the store is away: credentials of agents are looked at again later")
        except Exception:
            log.exception("credentials of agents are looked at again later")
        else:
            return True
        self._is_all = True
        return False

    async def _look(self) -> None:
        is_all = self._is_all or not self._late
        digests = list(self._watched if is_all else self._late)
        self._is_all = False
        self._late.clear()
        for start in range(0, len(digests), DIGESTS_MAX):
            some = digests[start : start + DIGESTS_MAX]
            valid = await self._tokens.valid(some)
            for digest in some:
                if digest not in valid:
                    self._lose(digest)

    def _lose(self, digest: str) -> None:
        for watched in list(self._watched.get(digest, ())):
            if not watched.is_lost:
                watched.is_lost = True
                watched.on_lost()
