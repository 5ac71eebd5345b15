"""Direct start: inserts new tasks and claims them in the same commit.

For a store with one writer, while workers are idle (`Dispatcher.is_idle`). It halves the latency from
enqueue to handler. Promises: the same rows and events as an insert and a claim; a caller that is cancelled
does not cancel the claim. Never: more tasks than the dispatcher has room for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.core.submit import Submission
from holdfast.engine.dispatcher import Dispatcher
from holdfast.engine.pool import WorkerPool
from holdfast.store.store import Inserted, Store


class DirectStart:
    """One for each engine."""

    __slots__ = ("_dispatcher", "_inserting", "_pool", "_store")

    def __init__(self, store: Store, dispatcher: Dispatcher, pool: WorkerPool) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._pool = pool
        self._inserting: set[asyncio.Task[list[Inserted]]] = set()

    @property
    def in_progress(self) -> int:
        """Inserts that the event loop has not finished."""
        return len(self._inserting)

    async def insert(self, group: Sequence[Submission]) -> list[Inserted]:
        if self._store.is_quick:
            return await self._insert(group)
        # A separate task: a cancelled caller must not cancel the claim. (If a quick write is cancelled after
        # all, the heartbeat finds the runs that this process does not hold, and gives them back.)
        task = asyncio.create_task(self._insert(group))
        self._inserting.add(task)
        task.add_done_callback(self._inserting.discard)
        return await asyncio.shield(task)

    async def _insert(self, group: Sequence[Submission]) -> list[Inserted]:
        dispatcher = self._dispatcher
        async with dispatcher.ticking:
            limit = dispatcher.room()  # After the wait: another tick may have filled the pool.
            if limit < 1:
                inserted = await self._store.insert(group)
                dispatcher.wake()
                return inserted
            with dispatcher.is_claiming():
                inserted, claimed = await self._store.insert_and_claim(
                    group, dispatcher.request(limit)
                )
                dispatcher.took(claimed, limit)
                self._pool.give(claimed.tasks)
        if len(claimed.tasks) < len(group):
            dispatcher.wake()
        return inserted
