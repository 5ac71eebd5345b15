"""Waits for work on behalf of remote workers.

Promises: a wait ends with a hint, when the next task is due, when a limit opens, or after `POLL_SECONDS`. A
limit that is due is opened here: a store may have remote workers only. Never: claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from holdfast.clock import Clock
from holdfast.gateway.worker.ports import Listen
from holdfast.store.store import Store

POLL_SECONDS: Final = 1.0
"""The longest wait without a look at the store."""
UNHINTED_SECONDS: Final = 0.25
"""The same where no hints arrive."""


class WorkNews:
    """One for each gateway."""

    def __init__(self, store: Store, clock: Clock, listen: Listen | None) -> None:
        self._store = store
        self._clock = clock
        self._listen = listen
        self._poll_seconds = UNHINTED_SECONDS if listen is None else POLL_SECONDS

    @contextmanager
    def listening(self, ended: asyncio.Event) -> Iterator[asyncio.Event]:
        """An event that is set by every hint. Begin before the first claim: no hint is missed."""
        stir = asyncio.Event()
        unsubscribe: Callable[[], None] = lambda: None  # noqa: E731
        if self._listen is not None:
            unsubscribe = self._listen(stir.set)
        try:
            yield stir
        finally:
            unsubscribe()

    async def wait(
        self, queues: Sequence[str], stir: asyncio.Event, ended: asyncio.Event, seconds: float
    ) -> None:
        """Waits until there may be work, at most these seconds."""
        upcoming = await self._store.backlog.next_due(queues)
        now = self._store.now()
        if upcoming.opens_at is not None and upcoming.opens_at <= now:
            opened, _ = await self._store.backlog.open_gates()
            if opened:
                return
        pause = min(seconds, self._poll_seconds)
        for at in (upcoming.due_at, upcoming.opens_at):
            if at is not None and at > now:
                pause = min(pause, at - now)
        if ended.is_set():
            return
        stop = asyncio.create_task(ended.wait())
        # The callback of a cancelled task runs after this wait: it would end the next one.
        stop.add_done_callback(lambda done: None if done.cancelled() else stir.set())
        try:
            await self._clock.wait(stir, pause)
        finally:
            stop.cancel()
