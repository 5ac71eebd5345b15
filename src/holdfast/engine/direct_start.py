"""Direct start: new tasks are inserted and claimed in the same commit.

The door of the engine for callers that enqueue in its process, on a store with one writer. It halves the
latency from enqueue to handler. Promises: the same rows and events as an insert and a claim; a caller that is
cancelled does not cancel the claim. Never: takes tasks while no worker is idle; the caller inserts them then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from holdfast.core.submit import Submission
from holdfast.engine.dispatcher import Dispatcher
from holdfast.store.store import Inserted, Store


class DirectStart:
    """One for each engine."""

    __slots__ = ("_dispatcher", "_inserting", "_store")

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._inserting: set[asyncio.Task[list[Inserted]]] = set()

    @property
    def in_progress(self) -> int:
        """Inserts that the event loop has not finished."""
        return len(self._inserting)

    def take(self, group: Sequence[Submission]) -> Awaitable[list[Inserted]] | None:
        """Inserts and starts the tasks, if workers are idle. None: the caller inserts them, and the
        dispatcher looks for them."""
        if not self._dispatcher.is_idle:
            # Woken before the insert: a claim right behind it shares the commit.
            self._dispatcher.wake()
            return None
        if self._store.is_quick:
            # If a quick write is cancelled after all, the heartbeat finds the runs that this process does
            # not hold, and gives them back.
            return self._dispatcher.insert_and_claim(group)
        return self._shielded(group)

    async def _shielded(self, group: Sequence[Submission]) -> list[Inserted]:
        """Inserts in a separate task: a cancelled caller must not cancel the claim."""
        task = asyncio.create_task(self._dispatcher.insert_and_claim(group))
        self._inserting.add(task)
        task.add_done_callback(self._inserting.discard)
        return await asyncio.shield(task)
