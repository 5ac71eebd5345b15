"""The checks of the demo fail when a claim is false."""

import asyncio

import pytest

from holdfast import TaskQueue
from holdfast.cli.demo.checks import CheckReport, KilledWorker, ScriptResult, check_claims
from holdfast.cli.demo.fleet_checks import FleetRun, SeenExecution, fleet_claims
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


def fleet_run() -> FleetRun:
    return FleetRun(
        "job_1",
        3,
        blocked=["c"],
        before={"NEW": 3},
        waited=True,
        refused_requester=True,
        executions=[
            SeenExecution("a", "SUCCESS", "succeeded", has_started=True),
            SeenExecution("b", "FAILED", "failed", has_started=True, reason="exit code 1"),
            SeenExecution("c", "BLOCKED", "blocked", has_started=False, reason="new switches"),
        ],
        exit_code=0,
    )


def test_true_claims_about_hosts_hold() -> None:
    run = fleet_run()
    assert [claim.name for claim in fleet_claims(run) if not claim.holds] == []
    assert dict(run.reasons) == {"failed": 1, "blocked": 1}


@pytest.mark.parametrize(
    ("wrong", "claim"),
    [
        ("early", "nothing started before the approval"),
        ("not asked", "nothing started before the approval"),
        ("requester", "the requester could not approve the job"),
        ("open", "each host has one outcome"),
        ("twice", "each host has one outcome"),
        ("missing", "each host has one outcome"),
        ("blocked", "nothing started on a blocked host"),
        ("no block", "nothing started on a blocked host"),
        ("reason", "each host that did not succeed says why"),
        ("exit", "the server stopped cleanly"),
    ],
)
def test_each_false_claim_about_hosts_fails(wrong: str, claim: str) -> None:
    run = fleet_run()
    a, b, c = run.executions
    match wrong:
        case "early":
            run.before = {"NEW": 2, "RUNNING": 1}
        case "not asked":
            run.waited = False
        case "requester":
            run.refused_requester = False
        case "open":
            run.executions = [SeenExecution("a", "RUNNING", "running", has_started=True), b, c]
        case "twice":
            run.executions = [a, a, c, b]
        case "missing":
            run.executions = [a, c]
        case "blocked":
            run.executions = [a, b, SeenExecution("c", "SUCCESS", "succeeded", has_started=True)]
        case "no block":
            run.blocked = []
        case "reason":
            run.executions = [a, SeenExecution("b", "FAILED", "failed", has_started=True), c]
        case "exit":
            run.exit_code = 1
    assert claim in [each.name for each in fleet_claims(run) if not each.holds]
