"""Links children that were inserted without locking their parents (`store/scripts/edges.py`). Part of the
sweeper.

Promises: a child that cannot be linked does not block others. After a failure each child is linked alone, and
those that fail are logged, counted and left out until the next pruning. While other transactions hold the
parents or the children, the tries back off (`backoff.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.engine.backoff import Backoff
from holdfast.engine.loop import Loop, log
from holdfast.errors import StoreUnavailable
from holdfast.store.links import LINK_BATCH
from holdfast.store.port import RowHeld
from holdfast.store.store import Linked, Store

ROUNDS_MAX: Final = 10
"""Batches before the sweeper checks leases again."""
LEFT_OUT_MAX: Final = 1_000


class Linking:
    def __init__(self, loop: Loop, store: Store, on_linked: Callable[[], None]) -> None:
        self._loop = loop
        self._store = store
        self._on_linked = on_linked
        self._backoff = Backoff()
        self._left_out: set[str] = set()
        """Children that could not be linked."""

    def retry_all(self) -> None:
        """Tries the children again that could not be linked."""
        self._left_out.clear()

    async def round(self) -> float | None:
        """Links some batches. Returns the seconds until the next round; None when nothing is left."""
        for _ in range(ROUNDS_MAX):
            linked = await self._batch()
            if linked.done:
                self._on_linked()
            if linked.done or linked.is_all:
                self._backoff.reset()
            if linked.is_all:
                return None
            if not linked.done:
                return self._backoff.next_seconds()
        return 0.0

    async def _batch(self) -> Linked:
        """Links a batch of children. If that fails, links them one by one."""
        try:
            return await self._store.links.link(LINK_BATCH, without=self._left_out)
        except RowHeld as error:
            log.warning("sweeper: children are linked to their parents later: %s", error)
            return Linked(0, False)
        except StoreUnavailable:
            raise
        except Exception as error:
            self._loop.troubles += 1
            log.warning("sweeper: children are linked to their parents one by one after %r", error)
        done = 0
        for pair in await self._store.links.unlinked(LINK_BATCH, without=self._left_out):
            what = f"linking task {pair[0]} to its parent {pair[1]}"
            linked = await self._loop.guard(what, self._store.links.link_these([pair]))
            done += linked.done if linked is not None else 0
            if linked is None and len(self._left_out) < LEFT_OUT_MAX:
                self._left_out.add(pair[0])
        return Linked(done, False)
