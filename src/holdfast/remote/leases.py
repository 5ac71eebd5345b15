"""The leases that a remote worker holds, by its own clock.

Promises: a run is cancelled before its lease ends, also while no gateway can be reached. The deadline is the
monotonic time before the request that got the lease, plus the lease, less a margin for clocks that run at
different speeds. A run that was cancelled so is given back when its handler has stopped: an outage is no
death. Never: reads a wall clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from queue import SimpleQueue
from typing import Final

from holdfast.clock import Clock
from holdfast.core.task import RunId
from holdfast.engine import outcome_log
from holdfast.engine.loop import Loop
from holdfast.engine.owned_run import CUT_OFF
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.remote.losses import NOT_RENEWED
from holdfast.remote.requests import Renewal

MARGIN_SHARE: Final = 0.01
MARGIN_SECONDS: Final = 0.002
IDLE_SECONDS: Final = 60.0


class Leases(Loop):
    """One for each remote engine."""

    name = "leases"

    def __init__(self, clock: Clock, runs: OwnedRuns) -> None:
        super().__init__(clock)
        self._runs = runs
        self._deadlines: dict[RunId, float] = {}
        self._next = float("inf")
        self._renewed_aside: SimpleQueue[Renewal] = SimpleQueue()
        self.ended = 0
        """Runs that were cancelled because their lease was about to end."""

    def grant(self, runs: Iterable[RunId], asked_at: float, lease_seconds: float) -> None:
        """Sets the deadlines of runs whose lease was granted or renewed."""
        deadline = asked_at + lease_seconds * (1 - MARGIN_SHARE) - MARGIN_SECONDS
        for run in runs:
            self._deadlines[run] = deadline
            if deadline < self._next:
                self._next = deadline
                self.wake()

    def renewed_aside(self, renewal: Renewal) -> None:
        """A renewal that another thread got while the event loop was blocked. Any thread may call this; it
        counts before the next deadlines are judged."""
        self._renewed_aside.put(renewal)

    def deadline(self, run: RunId) -> float | None:
        return self._deadlines.get(run)

    async def tick(self) -> float:
        while not self._renewed_aside.empty():
            renewal = self._renewed_aside.get_nowait()
            self.grant(renewal.kept, renewal.sent_at, renewal.lease_seconds)
        owned, now = self._runs.by_id, self.clock.monotonic()
        self._deadlines = {run: at for run, at in self._deadlines.items() if run in owned}
        ended = {
            run
            for run, at in self._deadlines.items()
            if at <= now and not owned[run].has_ended and owned[run].cancelled != CUT_OFF
        }
        if ended:
            self.ended += len(ended)
            for run in ended:
                outcome_log.cut_off(owned[run].task, NOT_RENEWED)
            self._runs.cut_off(ended)
        later = [at for run, at in self._deadlines.items() if run not in ended and at > now]
        self._next = min(later, default=float("inf"))
        return min(IDLE_SECONDS, self._next - now)
