"""Runs of this process that were taken away: interventions learn when their handlers have stopped.

Promises: an intervention is delivered when the process knows of it, and applied when the handler has stopped.
A process that dies first needs no care: the command ends with the lease of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.core.decide import Ruling
from holdfast.core.task import RunId, Task
from holdfast.core.transition import Refusal
from holdfast.engine.owned_run import OwnedRun
from holdfast.store.store import Store

UNWIND_SECONDS: Final = 1.0
"""How soon the heartbeat looks again whether a handler has stopped."""


class TakenRuns:
    """One for each engine."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unwinding: list[OwnedRun] = []
        self._new: set[RunId] = set()
        self._stopped: set[RunId] = set()

    @property
    def is_unwinding(self) -> bool:
        """Whether handlers have still to stop."""
        return bool(self._unwinding or self._stopped)

    def add(self, taken: Iterable[OwnedRun]) -> None:
        """Runs that the process has lost. They are being cancelled."""
        for owned in taken:
            self._new.add(owned.run)
            self._unwinding.append(owned)

    def refused(self, answers: Sequence[tuple[Task, Ruling]]) -> None:
        """Outcomes that came too late: their handlers have ended by themselves."""
        for task, ruling in answers:
            if type(ruling) is Refusal and ruling.code == "lease-lost":
                self._stopped.add(task.run)

    async def acknowledge(self) -> None:
        """Writes what has happened since the last call, if an intervention waits for it."""
        stopped = [owned.run for owned in self._unwinding if owned.worker is None]
        self._stopped.update(stopped)
        # A handler that was given up goes on: its command ends with the lease.
        self._unwinding = [
            owned for owned in self._unwinding if owned.worker is not None and not owned.is_given_up
        ]
        if new := sorted(self._new - self._stopped):
            await self._store.interventions.unwind(new, has_stopped=False)
        self._new.clear()
        if ended := sorted(self._stopped):
            await self._store.interventions.unwind(ended, has_stopped=True)
            self._stopped.difference_update(ended)
