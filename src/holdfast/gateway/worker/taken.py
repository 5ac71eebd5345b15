"""Runs of connected workers that an operator takes away without a command for the runner.

Promises: a worker learns of it when the gateway reads the event, not with its next renewal. An intervention
has a command, which is sent in place of this message. Never: counts on it; a renewal finds every lost run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.clock import Clock
from holdfast.core.task import RunId
from holdfast.core.worker.wire import Changes, HeldRunState, LostRun
from holdfast.errors import HoldfastError
from holdfast.store.store import Store
from holdfast.sync.worker.taken_runs import ended_runs
from holdfast.sync.worker.worker_sync import loss_reason

TAKING: Final = ("task.aborted", "task.paused", "task.forced")
"""The kinds of events by which operators take runs away."""
RUNS_MAX: Final = 10_000
"""Runs of one worker that are remembered. It learns of others with its next renewal."""
READ_RUNS: Final = 1_000
"""Runs that one statement looks up."""
PAUSE_SECONDS: Final = 0.05
"""The shortest time between two looks at the store."""
log = logging.getLogger("holdfast.gateway")
Lose = Callable[[str, LostRun], None]
"""Says to a worker that it has lost a run."""


class TakenRuns:
    """One for each gateway."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._held: dict[str, dict[RunId, None]] = {}
        """The runs of each connected worker, the oldest first."""
        self._stir = asyncio.Event()

    def enter(self, node: str) -> None:
        """A worker has connected."""
        self._held[node] = {}

    def leave(self, node: str) -> None:
        self._held.pop(node, None)

    def add(self, node: str, runs: Iterable[HeldRunState | RunId]) -> None:
        """A worker holds these runs. They are remembered while it is connected."""
        held = self._held.get(node)
        if held is None:
            return
        held.update((RunId(run.task_id, run.fence), None) for run in runs if run.fence)
        while len(held) > RUNS_MAX:
            del held[next(iter(held))]

    def reported(self, node: str, changes: Changes) -> None:
        """A worker ends runs by itself."""
        held = self._held.get(node)
        if not held:
            return
        for change in changes.task:
            if change.status not in (None, "running"):
                held.pop(RunId(change.task_id, change.fence), None)
        for checkpoint in changes.checkpoint:
            if checkpoint.decision is not None:
                held.pop(RunId(checkpoint.task_id, checkpoint.fence), None)

    def wake(self) -> None:
        """Runs may have been taken away."""
        self._stir.set()

    async def run(self, lose: Lose) -> None:
        """Looks for taken runs whenever it is woken, until cancelled."""
        while True:
            await self._stir.wait()
            self._stir.clear()
            try:
                await self._look(lose)
            except HoldfastError as error:
                log.debug("lost runs are found by renewals only: %s", error)
            await self._clock.sleep(PAUSE_SECONDS)

    async def _look(self, lose: Lose) -> None:
        nodes = {run: node for node, held in self._held.items() for run in held}
        remembered = list(nodes)
        for start in range(0, len(remembered), READ_RUNS):
            ended = await ended_runs(self._store, remembered[start : start + READ_RUNS])
            taken = [run for run, is_taken in ended if is_taken]
            tasks = await self._store.reads.get([run.task_id for run in taken]) if taken else {}
            for run, is_taken in ended:
                held = self._held.get(nodes[run], {})
                if run not in held:
                    continue
                del held[run]
                if is_taken:
                    task = tasks.get(run.task_id)
                    project = "" if task is None else task.project
                    reason = loss_reason(task, nodes[run], run.fence, project) or "reclaimed"
                    lost = LostRun(task_id=run.task_id, fence=run.fence, reason=reason)
                    lose(nodes[run], lost)
