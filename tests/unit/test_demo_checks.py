"""The checks of the demo fail when a claim is false."""

import asyncio

import pytest

from holdfast import TaskQueue
from holdfast.cli.demo.checks import CheckReport, KilledWorker, ScriptResult, check_claims
from holdfast.cli.demo.progress import FeedProgress
from holdfast.cli.demo.tasks import Plan
from holdfast.core.event import Position

IDS = ["one", "two"]
PLAN = Plan(
    [{"type": "echo", "id": task_id, "payload": 1} for task_id in IDS], {"one": 1}, [], [], []
)


async def run_tasks(queue: TaskQueue, plan: Plan = PLAN) -> FeedProgress:
    """Completes two tasks and returns their progress."""
    queue.register_handler("echo", echo)
    progress = FeedProgress(plan.ids)
    await queue.start()
    following = asyncio.create_task(progress.follow(queue, await start_of(queue)))
    await queue.enqueue_many(PLAN.requests)
    await progress.wait_until(lambda: progress.completed() == len(IDS))
    following.cancel()
    for task in progress.tasks.values():  # as if a worker had died while it ran them
        task.lost_by.append("victim")
    return progress


async def echo(task: object) -> int:
    return 1


async def start_of(queue: TaskQueue) -> Position:
    return await queue.position()


def script_result() -> ScriptResult:
    return ScriptResult(KilledWorker("victim", 1, 0.0, list(IDS)), exit_code=0)


def false_claims(report: CheckReport) -> list[str]:
    return [claim.name for claim in report.claims if not claim.holds]


async def test_true_claims_hold() -> None:
    queue = TaskQueue()
    progress = await run_tasks(queue)
    report = await check_claims(queue, PLAN, progress, script_result())
    await queue.stop()
    assert false_claims(report) == []
    assert report.holds
    assert report.by_status == {"completed": 2}
    assert report.recovered == 2


@pytest.mark.parametrize(
    ("wrong", "claim"),
    [
        ("lost", "no task is lost"),
        ("twice", "no task was completed twice"),
        ("gap", "the feed has no gap"),
        ("differ", "rows and events agree"),
        ("sum", "merges got the results of all their parents"),
        ("not reclaimed", "its tasks were reclaimed"),
        ("stuck", "all of them ran again and ended"),
        ("exit", "the workers stopped cleanly"),
    ],
)
async def test_each_false_claim_fails(wrong: str, claim: str) -> None:
    queue = TaskQueue()
    progress = await run_tasks(queue)
    plan, result = PLAN, script_result()
    match wrong:
        case "lost":
            plan = PLAN._replace(requests=[*PLAN.requests, {"type": "echo", "id": "three"}])
        case "twice":
            progress.tasks["one"].completions = 2
        case "gap":
            progress.gaps = 1
        case "differ":
            del progress.tasks["one"]
        case "sum":
            plan = PLAN._replace(sums={"one": 7})
        case "not reclaimed":
            result.killed.left.append("other")
        case "stuck":
            progress.tasks["one"].starts = [(1.0, "victim")]
        case "exit":
            result.exit_code = 1
    report = await check_claims(queue, plan, progress, result)
    await queue.stop()
    assert claim in false_claims(report)
    assert not report.holds
