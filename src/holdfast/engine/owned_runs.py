"""The runs that this process owns, and how it takes them away from their handlers.

Promises: a run is here from its claim until its outcome is committed or the process has lost it. A handler
that ignores its cancellation is cancelled again, and given up after `GIVE_UP_SECONDS`: it keeps its worker,
but not its lease. Never: starts a handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from holdfast.clock import Clock
from holdfast.core.command import Fail, Instruction
from holdfast.core.loop_block import HeldRun
from holdfast.core.task import RunId, Task
from holdfast.engine import outcome_log
from holdfast.engine.owned_run import CUT_OFF, LOST, RELEASED, TIMEOUT, OwnedRun

Deliver: TypeAlias = Callable[[Task, Instruction], bool]
"""Takes an outcome. False: wait before the next task is started."""


class OwnedRuns:
    """One for each engine."""

    def __init__(
        self, clock: Clock, deliver: Deliver, timed_out: Callable[[Task], Fail | None]
    ) -> None:
        self._clock = clock
        self._deliver = deliver
        self._timed_out = timed_out
        self.by_id: dict[RunId, OwnedRun] = {}
        """In the order of their claims."""
        self.given_up: list[OwnedRun] = []
        """Runs whose handlers were given up. `deaf` removes those that have ended."""
        self.fewer = asyncio.Event()
        """Set when there may be no handler left to wait for."""

    def lose(self, runs: set[RunId]) -> None:
        """Cancels runs whose leases were lost, in the order of their claims."""
        if not runs:
            return
        now = self._clock.monotonic()
        for owned in [owned for run, owned in self.by_id.items() if run in runs]:
            owned.cancel(LOST, now)
            if not owned.started:
                del self.by_id[owned.run]

    def cut_off(self, runs: set[RunId]) -> None:
        """Cancels runs whose leases are about to end. Their workers give the tasks back, so that a lease that
        ended in an outage is no death of its runner."""
        now = self._clock.monotonic()
        for owned in [owned for run, owned in self.by_id.items() if run in runs]:
            owned.cancel(CUT_OFF, now)

    def lose_older(self, claimed_again: set[str]) -> None:
        """Cancels the earlier runs of tasks that were claimed again. No heartbeat is needed to know."""
        older = {run for run in self.by_id if run.task_id in claimed_again}
        self.lose({run for run in older if not self.by_id[run].has_ended})

    def abandon(self) -> list[Task]:
        """Cancels every running handler. Returns the tasks, which the caller gives back."""
        now = self._clock.monotonic()
        running = [owned for owned in self.by_id.values() if owned.worker is not None]
        for owned in running:
            owned.cancel(RELEASED, now)
        return [owned.current for owned in running]

    def cancel_again(self) -> None:
        """Cancels handlers again that go on after their cancellation, and gives up the deaf ones."""
        now = self._clock.monotonic()
        for owned in [owned for owned in self.by_id.values() if owned.cancelled and owned.worker]:
            if owned.is_deaf(now):
                if not owned.is_given_up:
                    self._give_up(owned, now - owned.cancelled_at)
            elif owned.may_cancel_again(now):
                owned.cancel_worker()

    def _give_up(self, owned: OwnedRun, seconds: float) -> None:
        owned.give_up()
        self.given_up.append(owned)
        outcome_log.stuck(owned.task, seconds, owned.stack())
        failed = self._timed_out(owned.task) if owned.cancelled == TIMEOUT else None
        if failed is not None:
            self._deliver(owned.current, Instruction(owned.task.id, failed, fence=owned.task.fence))
        else:
            self.by_id.pop(owned.run, None)
        self.fewer.set()

    @property
    def deaf(self) -> int:
        """Handlers that were given up and still keep a worker."""
        self.given_up = [owned for owned in self.given_up if owned.worker is not None]
        return len(self.given_up)

    # -- for the thread of the watchdog ------------------------------------------------------------
    # `list` of a dictionary's values is one step for other threads. What changes after it does no harm: the
    # store judges a renewal by its fence.

    def task_of(self, worker: asyncio.Task[Any] | None) -> Task | None:
        """The task of a worker. Any thread may call this."""
        for owned in list(self.by_id.values()):
            if owned.worker is not None and owned.worker is worker:
                return owned.task
        return None

    def held(self) -> list[HeldRun]:
        """The runs whose leases this process renews. Any thread may call this."""
        now = self._clock.monotonic()
        return [
            HeldRun(owned.task, owned.run_seconds(now))
            for owned in list(self.by_id.values())
            if owned.is_renewed
        ]
