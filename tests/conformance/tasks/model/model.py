"""What the status and the attempts of every task must be, without SQL, locks or fast paths."""

from __future__ import annotations

from typing import Final

from holdfast.core.dependency import DependencyPolicy
from holdfast.core.task import ENDED, Status

MAX_ATTEMPTS: Final = 2
MAX_DEATHS: Final = 2


class Model:
    """A queue in a few dictionaries."""

    def __init__(self) -> None:
        self.status: dict[str, Status] = {}
        self.attempts: dict[str, int] = {}
        self.deaths: dict[str, int] = {}
        self.waits: dict[str, dict[str, DependencyPolicy]] = {}
        self.parents: dict[str, frozenset[str]] = {}
        """By child: the parents that have not ended as it needs them."""
        self.fell: set[str] = set()
        """Who failed with a parent."""

    def add(self, task_id: str, parents: dict[str, DependencyPolicy]) -> None:
        self.parents[task_id] = frozenset(parents)
        self.waits[task_id] = {p: x for p, x in parents.items() if not self.is_met(p, x)}
        self.status[task_id] = Status.BLOCKED if self.waits[task_id] else Status.QUEUED
        if self.dead(task_id):
            self.status[task_id] = Status.FAILED
            self.fell.add(task_id)
        self.attempts[task_id] = self.deaths[task_id] = 0

    def is_met(self, parent: str, policy: DependencyPolicy) -> bool:
        """Whether a parent has ended as a new child needs it."""
        status = self.status[parent]
        return status is Status.COMPLETED or (policy is DependencyPolicy.IGNORE and status in ENDED)

    def forget(self, task_id: str) -> None:
        for part in (self.status, self.attempts, self.deaths, self.waits, self.parents):
            part.pop(task_id)
        self.fell.discard(task_id)

    def is_read(self, task_id: str) -> bool:
        """Whether a task that has not ended reads its result."""
        return any(
            task_id in parents and self.status[child] not in ENDED
            for child, parents in self.parents.items()
        )

    # -- running -----------------------------------------------------------------------------------

    def start(self, task_id: str) -> None:
        assert self.status[task_id] is Status.QUEUED, "only a queued task may start"
        self.status[task_id] = Status.RUNNING
        self.attempts[task_id] += 1

    def back(self, task_id: str, *, spent: bool, status: Status = Status.QUEUED) -> None:
        self.status[task_id] = status
        if not spent:
            self.attempts[task_id] -= 1

    def fail(self, task_id: str, *, final: bool) -> None:
        if final or self.attempts[task_id] >= MAX_ATTEMPTS:
            self.end(task_id, Status.FAILED)
        else:
            self.back(task_id, spent=True)

    def die(self, task_id: str) -> None:
        self.deaths[task_id] += 1
        self.attempts[task_id] -= 1
        if self.deaths[task_id] >= MAX_DEATHS:
            self.end(task_id, Status.FAILED)
        else:
            self.status[task_id] = Status.QUEUED

    # -- ends, and what comes back -------------------------------------------------------------------

    def end(self, task_id: str, status: Status) -> None:
        was = self.status[task_id]
        self.status[task_id] = status
        if was is status:
            return
        for child, waits in self.waits.items():
            if task_id not in waits:
                continue
            if status is Status.COMPLETED or waits[task_id] is DependencyPolicy.IGNORE:
                del waits[task_id]
                if self.status[child] is Status.BLOCKED and not waits:
                    self.status[child] = Status.QUEUED
            elif self.status[child] is Status.BLOCKED:
                self.fell.add(child)
                self.end(child, Status.FAILED)

    def replay(self, task_id: str) -> None:
        self.status[task_id] = Status.QUEUED
        self.attempts[task_id] = self.deaths[task_id] = 0
        self.fell.discard(task_id)
        self.revive(task_id)

    def revive(self, parent: str) -> None:
        """A task that failed with a parent, and has no dead parent any more, waits again."""
        for child in [i for i, waits in self.waits.items() if parent in waits]:
            if self.status[child] is Status.FAILED and child in self.fell and not self.dead(child):
                self.status[child] = Status.BLOCKED
                self.attempts[child] = self.deaths[child] = 0
                self.fell.discard(child)
                self.revive(child)

    def dead(self, child: str) -> set[str]:
        """The parents that keep it from coming back; one that is not known any more was pruned."""
        gone = (None, Status.FAILED, Status.ABORTED)
        waits = self.waits[child].items()
        return {p for p, x in waits if x is DependencyPolicy.FAIL and self.status.get(p) in gone}

    def check(self) -> None:
        """A waiting task has a live parent; a task that died with a parent has a dead one."""
        for child, status in self.status.items():
            if status is Status.BLOCKED:
                assert not self.dead(child), f"{child} waits for the dead"
            if child in self.fell and status is Status.FAILED:
                assert self.dead(child), f"{child} is dead without a reason"
