"""What a dialect brings for the shortcuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Task
from holdfast.store.script import Script, StatementCall


class FastPaths(Protocol):
    """Scripts of few statements; those of `insert_one` and `start_one` are single ones."""

    def insert_one(self, task: Task, *, now: float, record_id: int, hint: str) -> StatementCall:
        """A plain task. RowExists when there is such a row."""
        ...

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, record_id: int, hint: str
    ) -> Script[set[str]]:
        """Plain tasks; the ids that were not there before."""
        ...

    def start_one(
        self, task: Task, claim: ClaimRequest, *, now: float
    ) -> tuple[StatementCall, Task] | None:
        """Inserts a plain task as one that runs: the statement, which writes nothing when another task is
        before it in line, and the task as it is then. None where there is no such way."""
        ...

    def claim(
        self, claim: ClaimRequest, *, now: float, record_id: int
    ) -> Script[tuple[Claimed, list[str]]]:
        """Takes what no limit counts; also the ids of tasks under limits that were next in order."""
        ...

    def claim_next(self, claim: ClaimRequest, *, now: float, record_id: int) -> Script[list[Task]]:
        """Takes the first in line; nothing if a limit counts it."""
        ...

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, record_id: int
    ) -> Script[set[str]]:
        """Completions without dependents or limits; the ids that were written."""
        ...

    def rehearse(self, claim: ClaimRequest, *, now: float) -> Sequence[StatementCall]:
        """The statements that a worker repeats all day, with arguments that touch no row."""
        ...
