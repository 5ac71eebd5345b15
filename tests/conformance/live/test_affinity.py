"""A task that goes on prefers the node that ran it, for a time, if that node is live."""

from __future__ import annotations

import pytest

from holdfast.core import command as c, decision as rules
from holdfast.core.decision import Choice
from holdfast.core.limit import LimitRule
from holdfast.core.task import Task
from holdfast.engine.due_changes import DueChanges
from holdfast.store.decisions import Asked
from holdfast.store.store import Store
from holdfast.testing import VirtualClock
from tests.conformance.tasks.helpers import (
    claim_ids,
    claim_one,
    claim_request,
    code,
    get,
    order,
    put,
    runner_says,
)

ONE = (("key", LimitRule(max_running=1)),)
YES = Choice(choice_json='"yes"', actor="user:ann")


async def joined(store: Store, node: str = "node-a") -> None:
    await store.heartbeat(node, '{"lease_seconds": 9.0}', [], 9.0)


async def resumed(store: Store, task: Task, seconds: float = 30.0) -> Task:
    affinity = await store.reads.affinity([task.id], seconds)
    assert code(await order(store, task.id, c.Resume("user:ann", affinity=affinity))) == "moved"
    return await get(store, task.id)


async def decided(store: Store, task: Task, seconds: float = 30.0) -> Task:
    """The paused task waits for a decision, which is made."""
    (decision,) = await store.decisions.of_tasks([task.id])
    await store.decisions.decide(decision.id, YES, affinity_seconds=seconds)
    return await get(store, task.id)


async def waiting(store: Store, *, asks: bool) -> Task:
    """A task that node-a ran: paused, or waiting for a decision."""
    await put(store, "a")
    task = await claim_one(store)
    if asks:
        question = rules.make_question("Deploy?", key="deploy")
        assert isinstance(await store.decisions.ask(task.id, task.fence, question), Asked)
    else:
        assert code(await order(store, task.id, c.Pause("user:ann"))) == "moved"
    return await get(store, task.id)


@pytest.mark.parametrize("asks", [False, True], ids=["resumed", "decided"])
async def test_the_node_that_ran_a_task_is_preferred_for_a_time(
    store: Store, clock: VirtualClock, asks: bool
) -> None:
    await joined(store)
    task = await waiting(store, asks=asks)
    assert task.node == "node-a"
    after = await (decided if asks else resumed)(store, task)
    assert (after.assigned_to, after.assigned_until) == ("node-a", store.now() + 30.0)
    assert (after.node, after.gate) == (None, "!prefers:node-a")
    event = next(e for e in await store.feed.history(task.id) if e.kind == "task.resumed")
    assert (event.data["assigned_to"], event.data["assigned_until"]) == (
        "node-a",
        after.assigned_until,
    )
    assert await claim_ids(store, node="node-b") == []
    assert [t.id for t in (await store.by_id.claim_assigned(claim_request())).tasks] == ["a"]
    ran = await get(store, "a")
    assert (ran.node, ran.assigned_to, ran.assigned_until) == ("node-a", None, None)


@pytest.mark.parametrize("asks", [False, True], ids=["resumed", "decided"])
async def test_then_any_node_may_claim_it(store: Store, clock: VirtualClock, asks: bool) -> None:
    await joined(store)
    await (decided if asks else resumed)(store, await waiting(store, asks=asks))
    for _ in range(5):
        clock.set(clock.now() + 5.5)
        await joined(store)  # It is live, but has no free worker.
        await DueChanges(store, lambda: None).round()
        assert await claim_ids(store, node="node-b") == []
    clock.set(clock.now() + 2.5)
    await DueChanges(store, lambda: None).round()
    assert await claim_ids(store, node="node-b") == ["a"]


@pytest.mark.parametrize("asks", [False, True], ids=["resumed", "decided"])
async def test_the_preference_ends_when_the_node_is_late(
    store: Store, clock: VirtualClock, asks: bool
) -> None:
    """A node that was killed, and whose death the answer came too early to know of."""
    await joined(store)
    await (decided if asks else resumed)(store, await waiting(store, asks=asks))
    woken: list[bool] = []
    changes = DueChanges(store, lambda: woken.append(True))
    clock.set(clock.now() + 5.5)
    assert await changes.round() == pytest.approx(0.5)
    assert await claim_ids(store, node="node-b") == []
    clock.set(clock.now() + 0.5)
    assert await changes.round() == 0.0
    assert woken == [True]
    assert await claim_ids(store, node="node-b") == ["a"]
    event = next(e for e in await store.feed.history("a") if e.kind == "task.unassigned")
    assert event.data["node"] == "node-a"
    assert await changes.round() is None


async def test_a_heartbeat_prolongs_the_preference(store: Store, clock: VirtualClock) -> None:
    await joined(store)
    await resumed(store, await waiting(store, asks=False))
    changes = DueChanges(store, lambda: None)
    clock.set(clock.now() + 5.5)
    await joined(store)
    assert await changes.round() == pytest.approx(6.0)
    assert await store.upkeep.open_preferred(["node-a"]) == 0


async def test_the_preference_ends_when_the_node_leaves(store: Store) -> None:
    await joined(store)
    await resumed(store, await waiting(store, asks=False))
    await store.upkeep.leave("node-a")
    after = await get(store, "a")
    assert (after.assigned_to, after.assigned_until, after.gate) == (None, None, None)
    assert await claim_ids(store, node="node-b") == ["a"]


async def test_a_preference_that_was_read_before_the_node_left_ends_too(store: Store) -> None:
    await joined(store)
    task = await waiting(store, asks=False)
    affinity = await store.reads.affinity([task.id], 30.0)
    await store.upkeep.leave("node-a")
    await order(store, task.id, c.Resume("user:ann", affinity=affinity))
    assert await claim_ids(store, node="node-b") == []
    await DueChanges(store, lambda: None).round()
    assert await claim_ids(store, node="node-b") == ["a"]


async def test_a_hold_ends_the_preference(store: Store) -> None:
    await joined(store)
    await resumed(store, await waiting(store, asks=False))
    await order(store, "a", c.Pause("user:ann"))
    await order(store, "a", c.Resume("user:ann"))
    assert await claim_ids(store, node="node-b") == ["a"]


async def test_a_full_limit_ends_the_preference(store: Store) -> None:
    """The preferred node finds the limit full: the task waits in its line, for any node."""
    await joined(store)
    await put(store, "a", type="limited", rules=ONE)
    await order(store, (await claim_one(store)).id, c.Pause("user:ann"))
    await put(store, "b", type="limited", rules=ONE)
    (other,) = [t for t in (await store.claim(claim_request())).tasks if t.id == "b"]
    await resumed(store, await get(store, "a"))
    assert (await store.by_id.claim_assigned(claim_request())).tasks == []
    parked = await get(store, "a")
    assert (parked.gate, parked.assigned_to) == ("key", None)
    assert code(await runner_says(store, other, c.Complete("null"))) == "moved"
    assert await claim_ids(store, node="node-b") == ["a"]


async def test_the_assignment_of_an_operator_outlasts_its_node(
    store: Store, clock: VirtualClock
) -> None:
    await joined(store)
    await put(store, "a")
    await order(store, "a", c.Reassign("user:ann", "node-a", 60.0))
    await store.upkeep.leave("node-a")
    clock.set(clock.now() + 59.0)
    await DueChanges(store, lambda: None).round()
    assert await claim_ids(store, node="node-b") == []


@pytest.mark.parametrize("asks", [False, True], ids=["resumed", "decided"])
@pytest.mark.parametrize("why", ["silent", "left", "no-affinity", "too-short"])
async def test_a_task_does_not_wait_for_a_node_that_is_gone(
    store: Store, clock: VirtualClock, why: str, asks: bool
) -> None:
    await joined(store)
    task = await waiting(store, asks=asks)
    if why == "silent":
        clock.set(clock.now() + 6.0)
    elif why == "left":
        await store.upkeep.leave("node-a")
    # A time so short that it ends at the moment it begins.
    seconds = {"no-affinity": 0.0, "too-short": 1e-9}.get(why, 30.0)
    after = await (decided if asks else resumed)(store, task, seconds)
    assert (after.assigned_to, after.gate) == (None, None)
    assert await claim_ids(store, node="node-b") == ["a"]


async def test_an_assignment_of_an_operator_stays(store: Store) -> None:
    await joined(store)
    task = await waiting(store, asks=False)
    await order(store, task.id, c.Reassign("user:ann", "node-b", None))
    after = await resumed(store, task)
    assert (after.assigned_to, after.assigned_until) == ("node-b", None)


async def test_a_task_that_its_node_resumes_is_open_to_all(store: Store) -> None:
    await joined(store)
    await put(store, "a")
    task = await claim_one(store)
    assert code(await runner_says(store, task, c.Suspend("node:node-a"))) == "moved"
    assert code(await order(store, task.id, c.Resume("node:node-a"))) == "moved"
    assert await claim_ids(store, node="node-b") == ["a"]
