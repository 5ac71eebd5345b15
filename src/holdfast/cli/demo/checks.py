"""Checks the claims of the demo against the store and the feed.

Promises: rows and events are compared with each other and with the plan; a false claim fails the demo.
Never: relies on what the script recorded where the store or the feed can answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.app import TaskQueue
from holdfast.cli.demo.progress import FeedProgress, TaskProgress
from holdfast.cli.demo.tasks import Plan
from holdfast.core.task import ENDED, Status, Task


class KilledWorker(msgspec.Struct):
    """The worker that was killed, and the tasks that the store listed as running on it right afterwards."""

    node: str
    pid: int
    at: float
    left: list[str]
    new_pid: int = 0
    back_after: float = 0.0


class ScriptResult(msgspec.Struct):
    """What the script did, for the summary and the checks."""

    killed: KilledWorker
    dead: int = 0
    groups: int = 0
    replayed: int = 0
    edited: int = 0
    seconds: float = 0.0
    exit_code: int | None = None


class Claim(msgspec.Struct, frozen=True):
    """A statement that must be true, and what was observed."""

    name: str
    holds: bool
    observed: str


class CheckReport(msgspec.Struct, frozen=True):
    """All claims with the figures behind them."""

    claims: list[Claim]
    by_status: dict[str, int]
    lost: int
    completed_twice: int
    held: list[str]
    """Tasks that the killed worker had not finished."""
    recovered: int
    recovered_seconds: float

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)


async def check_claims(
    queue: TaskQueue, plan: Plan, progress: FeedProgress, result: ScriptResult
) -> CheckReport:
    """Reads all rows from the store and checks every claim."""
    resources = await queue.open()
    rows = await resources.store.reads.get(plan.ids)
    lost = [task_id for task_id in plan.ids if not _has_ended(task_id, rows)]
    twice = [task_id for task_id, task in progress.tasks.items() if task.completions > 1]
    held = progress.lost_by(result.killed.node)
    recoveries = _recoveries(progress, held, result.killed)
    figures: dict[str, Any] = {
        "by_status": dict(Counter(task.status.value for task in rows.values())),
        "lost": len(lost),
        "completed_twice": len(twice),
        "held": held,
        "recovered": len(recoveries),
        "recovered_seconds": max(recoveries.values(), default=0.0),
    }
    claims = [
        Claim("no task is lost", not lost, _shown(lost)),
        Claim("no task was completed twice", not twice, _shown(twice)),
        Claim("the feed has no gap", progress.gaps == 0, str(progress.gaps)),
        *_about_rows(plan, rows, progress),
        *_about_the_kill(progress, result.killed, held, recoveries),
        Claim(
            "the workers stopped cleanly", result.exit_code == 0, f"exit code {result.exit_code}"
        ),
    ]
    return CheckReport(claims=claims, **figures)


def _has_ended(task_id: str, rows: Mapping[str, Task]) -> bool:
    return task_id in rows and rows[task_id].status in ENDED


def _about_rows(plan: Plan, rows: Mapping[str, Task], progress: FeedProgress) -> Iterator[Claim]:
    """Compares the rows with the feed and the plan."""
    different = [
        task_id
        for task_id, task in rows.items()
        if task_id not in progress.tasks or progress.tasks[task_id].status is not task.status
    ]
    yield Claim("rows and events agree", not different, _shown(different))
    wrong = [
        task_id
        for task_id, total in plan.sums.items()
        if task_id not in rows or rows[task_id].result != total
    ]
    yield Claim("merges got the results of all their parents", not wrong, _shown(wrong))
    dead = sorted(task.id for task in rows.values() if task.status is Status.FAILED)
    expected = sorted(plan.to_leave)
    yield Claim(
        "only tasks that were not repaired are dead", dead == expected, f"{len(dead)} dead letters"
    )


def _recoveries(progress: FeedProgress, held: list[str], killed: KilledWorker) -> dict[str, float]:
    """The killed worker's tasks that started on another node and ended: seconds from kill to start."""
    seconds = {}
    for task_id in held:
        task = progress.tasks[task_id]
        later = [at for at, node in task.starts if node != killed.node and at > killed.at]
        if later and task.status in ENDED:
            seconds[task_id] = later[0] - killed.at
    return seconds


def _about_the_kill(
    progress: FeedProgress, killed: KilledWorker, held: list[str], recoveries: dict[str, float]
) -> Iterator[Claim]:
    yield Claim("the killed worker held tasks", bool(held), f"{len(held)} tasks")
    not_reclaimed = sorted(
        task_id
        for task_id in set(killed.left) - set(held)
        if not _ended_on(progress.tasks.get(task_id), killed.node)
    )
    yield Claim("its tasks were reclaimed", not not_reclaimed, _shown(not_reclaimed))
    unfinished = [task_id for task_id in held if task_id not in recoveries]
    yield Claim("all of them ran again and ended", not unfinished, _shown(unfinished))


def _ended_on(task: TaskProgress | None, node: str) -> bool:
    """Whether the killed node's own run ended: its completion reached the server before the kill and
    was committed after the rows were read."""
    if task is None or task.status not in ENDED or not task.starts:
        return False
    return task.starts[-1][1] == node


def _shown(ids: list[str]) -> str:
    return f"{len(ids)}: {', '.join(ids[:5])}" if ids else "0"
