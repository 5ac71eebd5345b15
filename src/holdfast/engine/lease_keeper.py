"""Renews the leases of a process whose event loop is blocked, from the thread of the watchdog.

Promises: only the runs that `core/loop_block.py` lets a blocked process keep are renewed, under their fences
and by the store's time. The node reports the block with each renewal, and goes on when no lease is kept any
more, so that others can tell a blocked process from a dead one. A run whose lease is no longer kept is
logged once. Never: uses the event loop of the engine, or a connection of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from holdfast.core.codec import dumps
from holdfast.core.lease import renewal_interval
from holdfast.core.loop_block import HeldRun, LoopBlock, is_kept
from holdfast.core.task import RunId
from holdfast.engine import outcome_log
from holdfast.engine.loop import log
from holdfast.store.store import Store

NOT_KEPT: Final = (
    "the leases of this process could not be renewed while it is blocked, trying again: %r"
)


class LeaseKeeper(Protocol):
    """What the watchdog calls, always in its own thread."""

    def keep(self, block: LoopBlock) -> bool:
        """Renews leases once. False: not all could be renewed, try again soon. Never raises."""

    def end(self) -> None:
        """The event loop runs again: closes the connection."""


class KeptRuns:
    """Chooses the runs of one block whose leases are kept, and logs the others once."""

    def __init__(
        self,
        held: Callable[[], list[HeldRun]],
        *,
        lease_seconds: float,
        default_timeout: float | None,
    ) -> None:
        """`held`: the runs of this process, for any thread."""
        self._held = held
        self._lease_seconds = lease_seconds
        self._default_timeout = default_timeout
        self._left: set[RunId] = set()

    def during(self, block: LoopBlock) -> list[RunId]:
        """The runs whose leases are renewed now."""
        keeps = []
        for run in self._held():
            name = run.task.run
            if is_kept(
                run,
                block,
                lease_seconds=self._lease_seconds,
                default_timeout=self._default_timeout,
            ):
                keeps.append(name)
            elif name not in self._left:
                self._left.add(name)
                outcome_log.left(run.task, block)
        return keeps

    def end(self) -> None:
        self._left.clear()


class StoreKeeper:
    """Keeps leases over an own connection to the store, in an own event loop."""

    def __init__(
        self,
        store: Store,
        runs: KeptRuns,
        describe: Callable[[], dict[str, object]],
        *,
        node: str,
        lease_seconds: float,
    ) -> None:
        """`describe`: the last description of this process, for any thread."""
        self._store = store
        self._runs = runs
        self._describe = describe
        self._node = node
        self._lease_seconds = lease_seconds
        self._runner: asyncio.Runner | None = None
        self._has_failed = False

    def keep(self, block: LoopBlock) -> bool:
        self._runner = self._runner or asyncio.Runner()
        try:
            return self._runner.run(self._renew(self._runs.during(block), block))
        except Exception as error:
            if not self._has_failed:
                log.warning(NOT_KEPT, error)
            self._has_failed = True
            return False

    async def _renew(self, runs: Sequence[RunId], block: LoopBlock) -> bool:
        info_json = dumps(self._describe() | {"blocked": block})
        async with asyncio.timeout(renewal_interval(self._lease_seconds)):
            answer = await self._store.heartbeat(self._node, info_json, runs, self._lease_seconds)
        return answer.is_whole

    def end(self) -> None:
        runner, self._runner, self._has_failed = self._runner, None, False
        self._runs.end()
        if runner is not None:
            runner.close()
