"""The demo's proof notices when something is wrong."""

import asyncio

import pytest

from holdfast import TaskQueue
from holdfast.cli.demo.plan import Plan
from holdfast.cli.demo.play import Killed, Story
from holdfast.cli.demo.proof import Proof, prove
from holdfast.cli.demo.tally import Tally
from holdfast.core.event import Position

IDS = ["one", "two"]
PLAN = Plan(
    [{"type": "echo", "id": task_id, "payload": 1} for task_id in IDS], {"one": 1}, [], [], []
)


async def played(queue: TaskQueue, plan: Plan = PLAN) -> Tally:
    """Two tasks that complete, and a tally of them."""
    queue.register_handler("echo", echo)
    tally = Tally(plan.ids)
    await queue.start()
    following = asyncio.create_task(tally.follow(queue, await start_of(queue)))
    await queue.enqueue_many(PLAN.requests)
    await tally.until(lambda: tally.completed() == len(IDS))
    following.cancel()
    for seen in tally.tasks.values():  # as if a worker had died with them
        seen.lost_by.append("victim")
    return tally


async def echo(task: object) -> int:
    return 1


async def start_of(queue: TaskQueue) -> Position:
    return await queue.position()


def story() -> Story:
    return Story(Killed("victim", 1, 0.0, list(IDS)), crew_code=0)


def false_claims(proof: Proof) -> list[str]:
    return [claim.name for claim in proof.claims if not claim.holds]


async def test_what_is_true_is_proved() -> None:
    queue = TaskQueue()
    tally = await played(queue)
    proof = await prove(queue, PLAN, tally, story())
    await queue.stop()
    assert false_claims(proof) == []
    assert proof.holds
    assert proof.by_status == {"completed": 2}
    assert proof.recovered == 2


@pytest.mark.parametrize(
    ("wrong", "claim"),
    [
        ("lost", "no task is lost"),
        ("twice", "no task was completed twice"),
        ("gap", "the feed has no gap"),
        ("differ", "rows and events agree"),
        ("sum", "merges saw the results of all their parents"),
        ("forgotten", "what it held was taken back"),
        ("stuck", "all of it ran again and ended"),
        ("crew", "the workers stopped cleanly"),
    ],
)
async def test_what_is_false_fails(wrong: str, claim: str) -> None:
    queue = TaskQueue()
    tally = await played(queue)
    plan, told = PLAN, story()
    match wrong:
        case "lost":
            plan = PLAN._replace(requests=[*PLAN.requests, {"type": "echo", "id": "three"}])
        case "twice":
            tally.tasks["one"].completions = 2
        case "gap":
            tally.gaps = 1
        case "differ":
            del tally.tasks["one"]
        case "sum":
            plan = PLAN._replace(sums={"one": 7})
        case "forgotten":
            told.killed.left.append("other")
        case "stuck":
            tally.tasks["one"].starts = [(1.0, "victim")]
        case "crew":
            told.crew_code = 1
    proof = await prove(queue, plan, tally, told)
    await queue.stop()
    assert claim in false_claims(proof)
    assert not proof.holds
