"""Checks the claims of the demo against the store and the feed.

Promises: two independent sources, the rows and the events, must agree; a claim that is not true fails
the demo. Never: believes the plot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.app import TaskQueue
from holdfast.cli.demo.plan import Plan
from holdfast.cli.demo.play import Killed, Story
from holdfast.cli.demo.tally import Seen, Tally
from holdfast.core.task import ENDED, Status, Task


class Claim(msgspec.Struct, frozen=True):
    """Something that must be true, and what was found."""

    name: str
    holds: bool
    found: str


class Proof(msgspec.Struct, frozen=True):
    """All claims with the figures behind them."""

    claims: list[Claim]
    by_status: dict[str, int]
    lost: int
    completed_twice: int
    held: list[str]
    """What the killed worker had not finished."""
    recovered: int
    recovered_seconds: float

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)


async def prove(queue: TaskQueue, plan: Plan, tally: Tally, story: Story) -> Proof:
    """Reads everything anew and judges."""
    backend = await queue.open()
    rows = await backend.store.get(plan.ids)
    lost = [task_id for task_id in plan.ids if not _is_accounted_for(task_id, rows)]
    twice = [task_id for task_id, seen in tally.tasks.items() if seen.completions > 1]
    held = tally.lost_by(story.killed.node)
    again = _recoveries(tally, held, story.killed)
    figures: dict[str, Any] = {
        "by_status": dict(Counter(task.status.value for task in rows.values())),
        "lost": len(lost),
        "completed_twice": len(twice),
        "held": held,
        "recovered": len(again),
        "recovered_seconds": max(again.values(), default=0.0),
    }
    claims = [
        Claim("no task is lost", not lost, _some(lost)),
        Claim("no task was completed twice", not twice, _some(twice)),
        Claim("the feed has no gap", tally.gaps == 0, str(tally.gaps)),
        *_of_rows(plan, rows, tally),
        *_of_the_kill(tally, story.killed, held, again),
        Claim("the workers stopped cleanly", story.crew_code == 0, f"exit code {story.crew_code}"),
    ]
    return Proof(claims=claims, **figures)


def _is_accounted_for(task_id: str, rows: Mapping[str, Task]) -> bool:
    return task_id in rows and rows[task_id].status in ENDED


def _of_rows(plan: Plan, rows: Mapping[str, Task], tally: Tally) -> Iterator[Claim]:
    """What the rows say, against the feed and the plan."""
    differ = [
        task_id
        for task_id, task in rows.items()
        if task_id not in tally.tasks or tally.tasks[task_id].status is not task.status
    ]
    yield Claim("rows and events agree", not differ, _some(differ))
    wrong = [
        task_id
        for task_id, total in plan.sums.items()
        if task_id not in rows or rows[task_id].result != total
    ]
    yield Claim("merges saw the results of all their parents", not wrong, _some(wrong))
    dead = sorted(task.id for task in rows.values() if task.status is Status.FAILED)
    expected = sorted(plan.to_leave)
    yield Claim("only what nobody repaired is dead", dead == expected, f"{len(dead)} dead letters")


def _recoveries(tally: Tally, held: list[str], killed: Killed) -> dict[str, float]:
    """The killed worker's tasks that were started again and ended: how long after the kill."""
    found = {}
    for task_id in held:
        seen = tally.tasks[task_id]
        later = [at for at, node in seen.starts if node != killed.node and at > killed.at]
        if later and seen.status in ENDED:
            found[task_id] = later[0] - killed.at
    return found


def _of_the_kill(
    tally: Tally, killed: Killed, held: list[str], again: dict[str, float]
) -> Iterator[Claim]:
    yield Claim("the killed worker held tasks", bool(held), f"{len(held)} tasks")
    forgotten = sorted(
        task_id
        for task_id in set(killed.left) - set(held)
        if not _was_on_its_way(tally.tasks.get(task_id), killed)
    )
    yield Claim("what it held was taken back", not forgotten, _some(forgotten))
    left = [task_id for task_id in held if task_id not in again]
    yield Claim("all of it ran again and ended", not left, _some(left))


def _was_on_its_way(seen: Seen | None, killed: Killed) -> bool:
    """Whether the server had its end when the worker was killed, and committed it a moment later."""
    if seen is None or seen.status not in ENDED or not seen.starts:
        return False
    return seen.starts[-1][1] == killed.node


def _some(ids: list[str]) -> str:
    return f"{len(ids)}: {', '.join(ids[:5])}" if ids else "0"
