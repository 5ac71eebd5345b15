"""Hosts of a job that leave the window of its rollout or return to it, as one step sees them.

Promises: what leaves was not begun when its task was locked. Never: decides which hosts return
(`core.fleet.rollout`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.core.command import Abort, Instruction
from holdfast.core.fleet.jobs.unstarted import REMOVED
from holdfast.core.fleet.model import Execution, Job
from holdfast.core.fleet.rollout.state import AdmitHosts, ReturnHosts, RolloutAction
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.fleet.status import ends_as
from holdfast.core.task import Status, Task
from holdfast.fleet.jobs.ending import Reason
from holdfast.fleet.jobs.job_rows import executions
from holdfast.fleet.jobs.rows import own
from holdfast.store.script import Script, call
from holdfast.store.scripts import apply
from holdfast.store.scripts.work import Work

_NOT_BEGUN: Final = frozenset({Status.QUEUED, Status.PAUSED})
LOOK_SECONDS: Final = 1.0
"""How often a running job looks which of its hosts can run. A job of more than `LOOK_HOSTS` does it more
rarely, so that it costs no more."""
LOOK_HOSTS: Final = 2_000


def look_seconds(hosts: int) -> float:
    """The time between two looks of a job with this number of hosts."""
    return LOOK_SECONDS * max(1.0, hosts / LOOK_HOSTS)


class WindowMoves:
    """Executions by their place in the job: ids of their tasks."""

    def __init__(self) -> None:
        self.leaving: dict[int, str] = {}
        """They are in the window and cannot run."""
        self.back: dict[int, str] = {}
        """They have left it and could run."""
        self.gone: list[str] = []
        """Their hosts were removed since the job was made."""
        self.returned: list[str] = []
        """Those of them that are let in."""

    def look(self, job: Job, rules: FleetRules, now: float) -> Script[int]:
        """Finds all three. Returns the number of hosts whose outcome is unknown."""
        unknown = 0
        given = {"job_id": job.id, "made_at": job.created_at, **rules.look(now)}
        rows = yield call(own("open_standings"), **given)
        for nth, task_id, status, is_away, is_gone in sorted(rows):
            if status == Status.STUCK:
                unknown += 1
            elif is_gone:
                self.gone.append(task_id)
            else:
                (self.back if is_away else self.leaving)[nth] = task_id
        return unknown

    def touched(self, actions: Sequence[RolloutAction]) -> list[str]:
        """The tasks that a step with these actions changes."""
        return [*self.leaving.values(), *self.gone, *self._let_in(actions)]

    def end_gone(self, work: Work, actor: str) -> dict[str, Reason]:
        """Ends what waits for hosts that were removed. Returns why, by task."""
        reasons: dict[str, Reason] = {}
        for task_id in self.gone:
            task = work.tasks[task_id]
            if task.status in _NOT_BEGUN:
                reason = Reason(*ends_as(task, *REMOVED))
                apply.carry_out(work, Instruction(task_id, Abort(actor, reason.detail)))
                reasons[task_id] = reason
        return reasons

    def keep_begun(self, tasks: Mapping[str, Task]) -> bool:
        """Leaves in the window what has begun since the look. Returns whether there is any."""
        before = len(self.leaving)
        self.leaving = {
            nth: id for nth, id in self.leaving.items() if tasks[id].status in _NOT_BEGUN
        }
        return len(self.leaving) < before

    def let_in(self, actions: Sequence[RolloutAction]) -> None:
        self.returned = self._let_in(actions)

    def _let_in(self, actions: Sequence[RolloutAction]) -> list[str]:
        nths = [nth for a in actions if isinstance(a, ReturnHosts) for nth in a.nths]
        return [self.back[nth] for nth in nths]

    def hold(self, found: Sequence[Execution]) -> None:
        """Blocks hold these, which were admitted in the same step."""
        self.leaving |= {execution.nth: execution.task_id for execution in found}

    def write(self) -> Script[None]:
        if self.leaving:
            yield call(own("move_executions"), away=1, ids=sorted(self.leaving.values()))
        if self.returned:
            yield call(own("move_executions"), away=0, ids=sorted(self.returned))


def in_window(job_id: str) -> Script[list[Execution]]:
    """The executions that are in the window. A transaction that halts or pauses the job locks them: a go that
    another transaction gives commits before it, or finds the job halted."""
    return executions((yield call(own("window_executions"), job_id=job_id)))


def admitted_by(
    job_id: str, actions: Sequence[RolloutAction]
) -> Script[dict[int, list[Execution]]]:
    """The executions that the rollout admits, by wave."""
    found: dict[int, list[Execution]] = {}
    for action in actions:
        if isinstance(action, AdmitHosts):
            rows = yield call(own("executions_by_nth"), job_id=job_id, nths=list(action.nths))
            found.setdefault(action.wave, []).extend(executions(rows))
    return found


def among(
    admitted: dict[int, list[Execution]], actions: Sequence[RolloutAction]
) -> dict[int, list[Execution]]:
    """Those that these actions admit too."""
    nths = {nth for action in actions if isinstance(action, AdmitHosts) for nth in action.nths}
    return {wave: [e for e in found if e.nth in nths] for wave, found in admitted.items()}
