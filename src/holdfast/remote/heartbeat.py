"""The heartbeat of a remote worker: renews its leases through the gateway.

Promises: leases are renewed each third of their duration while a gateway can be reached; a run that was lost
is cancelled at once. Commands of operators are obeyed and acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.clock import Clock
from holdfast.core.task import RunId
from holdfast.core.worker.wire import CommandAck, CommandFrame
from holdfast.engine import outcome_log
from holdfast.engine.loop import Loop
from holdfast.engine.owned_run import OwnedRun
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.engine.pool import WorkerPool
from holdfast.remote.leases import Leases
from holdfast.remote.link import Link
from holdfast.remote.losses import Losses, by_command

UNWIND_SECONDS: Final = 1.0
"""How soon to look again whether a handler has stopped that a command ended."""
RUNS_MAX: Final = 500
"""Runs in one renewal."""


class RemoteHeartbeat(Loop):
    """One for each remote engine."""

    name = "heartbeat"

    def __init__(
        self,
        clock: Clock,
        link: Link,
        runs: OwnedRuns,
        pool: WorkerPool,
        leases: Leases,
        *,
        lease_seconds: float,
    ) -> None:
        super().__init__(clock)
        self._link = link
        self._runs = runs
        self._pool = pool
        self._leases = leases
        self._lease_seconds = lease_seconds
        self._obeyed: dict[str, OwnedRun] = {}
        """Commands whose handlers have not stopped yet."""
        self.lost = 0
        self.renewed_at = clock.monotonic()

    async def tick(self) -> float:
        self._runs.cancel_again()
        pool = self._pool
        held = self.held()
        is_whole = True
        for start in range(0, len(held) or 1, RUNS_MAX):
            runs = held[start : start + RUNS_MAX]
            renewal = await self._link.renew(runs, pool.busy, pool.maximum)
            self._leases.grant(renewal.kept, renewal.sent_at, renewal.lease_seconds)
            is_whole = is_whole and not any(map(self._is_held, set(runs) - renewal.kept))
        self.renewed_at = self.clock.monotonic()
        self._acknowledge()
        # A run that was not renewed keeps its deadline: it is renewed in time, or ends before its lease.
        seconds = self._lease_seconds / (3 if is_whole else 30)
        return min(seconds, UNWIND_SECONDS) if self._obeyed else seconds

    def held(self) -> list[RunId]:
        """The runs whose leases are renewed."""
        return [run for run, owned in self._runs.by_id.items() if owned.is_renewed]

    def _is_held(self, run: RunId) -> bool:
        """Whether the lease of a run is still renewed: it may have ended during a renewal."""
        owned = self._runs.by_id.get(run)
        return owned is not None and owned.is_renewed

    def lose(self, losses: Losses) -> None:
        """Cancels runs that this worker does not hold any more. A run whose outcome is on its way is judged
        by the answer to that."""
        for owned in self._cancelled(losses):
            outcome_log.cut_off(owned.task, losses[owned.run])

    def _cancelled(self, runs: Iterable[RunId]) -> list[OwnedRun]:
        """Cancels runs, and returns those that were running."""
        by_id = self._runs.by_id
        lost = {run for run in runs if run in by_id and not by_id[run].has_ended}
        cancelled = [by_id[run] for run in sorted(lost) if by_id[run].cancelled is None]
        self.lost += len(cancelled)
        self._runs.lose(lost)
        return cancelled

    def obey(self, command: CommandFrame) -> CommandAck | None:
        """Carries out an operator's command: every kind takes the run away. It is acknowledged when the
        handler has stopped; until then a repeat has no effect."""
        run = RunId(command.task_id, command.fence)
        owned = self._runs.by_id.get(run)
        if command.id in self._obeyed:
            return None
        if owned is None:
            return CommandAck(id=command.id, outcome="unknown_task")
        self._obeyed[command.id] = owned
        if self._cancelled([run]):
            outcome_log.taken_by_command(owned.task, by_command(command), command.id)
        self.wake()
        return None

    def _acknowledge(self) -> None:
        """Acknowledges the commands whose handlers have stopped."""
        for command_id, owned in list(self._obeyed.items()):
            if owned.worker is None or owned.is_given_up:
                del self._obeyed[command_id]
                outcome = "refused" if owned.is_given_up else "done"
                detail = "the handler ignores its cancellation" if owned.is_given_up else ""
                self._link.acknowledge(CommandAck(id=command_id, outcome=outcome, detail=detail))
