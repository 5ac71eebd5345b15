"""Claims of tasks by id, holds, reservations and progress that does not come."""

from __future__ import annotations

from holdfast.core import command as c
from holdfast.core.claim_by_id import ClaimById
from holdfast.core.limit import LimitRule
from holdfast.core.task import Status, Task
from holdfast.core.transition import Refusal
from holdfast.engine.due_changes import DueChanges
from holdfast.store.store import Store
from holdfast.testing import VirtualClock
from tests.conformance.tasks.helpers import (
    claim_ids,
    claim_one,
    claim_request,
    code,
    complete,
    get,
    kinds,
    order,
    put,
    put_plain,
    runner_says,
    statuses,
)


def by_id(
    task_id: str, *, node: str = "plugin-a", claim_id: str = "c-1", lease_seconds: float = 30.0
) -> ClaimById:
    return ClaimById(task_id, node, claim_id, lease_seconds)


async def taken(store: Store, request: ClaimById) -> Task:
    answer = await store.by_id.claim(request)
    assert isinstance(answer, Task), answer
    return answer


async def why_not(store: Store, request: ClaimById) -> str:
    answer = await store.by_id.claim(request)
    assert isinstance(answer, Refusal), answer
    return answer.reason or answer.code


async def test_a_repeated_claim_gets_the_same_answer(store: Store) -> None:
    await put(store, "a")
    first = await taken(store, by_id("a"))
    assert (first.status, first.fence, first.claim_id) == (Status.RUNNING, 1, "c-1")
    again = await taken(store, by_id("a", lease_seconds=60.0))
    assert (again.fence, again.version) == (first.fence, first.version)
    assert (await get(store, "a")).lease_until == again.lease_until
    assert (await kinds(store, "a")).count("task.started") == 1
    assert await why_not(store, by_id("a", claim_id="c-2")) == "already-locked"
    assert await why_not(store, by_id("a", node="plugin-b")) == "already-locked"
    assert code(await complete(store, first)) == "moved"
    assert await why_not(store, by_id("a")) == "completed"


async def test_a_lease_that_has_ended_is_judged_in_the_claim(
    store: Store, clock: VirtualClock
) -> None:
    await put(store, "a")
    first = await taken(store, by_id("a"))
    clock.set(clock.now() + 31.0)
    second = await taken(store, by_id("a", node="plugin-b", claim_id="c-2"))
    assert (second.fence, second.deaths) == (first.fence + 2, 1)
    assert code(await runner_says(store, first, c.Complete("1"))) == "lease-lost"
    assert code(await runner_says(store, second, c.Complete("2"))) == "moved"


async def test_what_cannot_be_claimed_is_refused_with_the_reason(store: Store) -> None:
    await put(store, "a")
    await put(store, "held")
    await order(store, "held", c.Pause("ann", "wait"))
    await put(store, "later", delay_seconds=60.0)
    await put(store, "reserved")
    await order(store, "reserved", c.Reassign("ann", "plugin-b"))
    assert await why_not(store, by_id("held")) == "held"
    assert await why_not(store, by_id("later")) == "not_due"
    assert await why_not(store, by_id("reserved")) == "assigned"
    assert await why_not(store, by_id("nowhere")) == "not-found"
    await store.upkeep.pause_queue("default", actor="ann", reason="")
    assert await why_not(store, by_id("a")) == "queue_paused"


async def test_a_claim_by_id_counts_against_limits(store: Store) -> None:
    one = (("one", LimitRule(max_running=1)),)
    await put(store, "a", rules=one)
    await put(store, "b", rules=one)
    first = await taken(store, by_id("a"))
    assert await why_not(store, by_id("b", claim_id="c-2")) == "limit"
    assert code(await complete(store, first)) == "moved"
    assert (await taken(store, by_id("b", claim_id="c-2"))).id == "b"


async def test_a_held_task_waits_until_its_hold_is_lifted(store: Store) -> None:
    (task_id,) = await put_plain(store, 1)
    assert code(await order(store, task_id, c.Pause("ann", "not yet"))) == "moved"
    assert await claim_ids(store) == []
    assert code(await order(store, task_id, c.Pause("ann", "not yet"))) == "already-applied"
    assert code(await order(store, task_id, c.Resume("bob"))) == "moved"
    assert await claim_ids(store) == [task_id]
    assert (await kinds(store, task_id))[1:3] == ["task.held", "task.unheld"]


async def test_a_hold_takes_a_parked_task_from_its_limit(store: Store) -> None:
    one = (("one", LimitRule(max_running=1)),)
    for name in ("a", "b", "c"):
        await put(store, name, rules=one)
    running = await claim_one(store, types=("work",))
    assert await claim_ids(store) == [], "the others are parked"
    parked = [name for name in ("a", "b", "c") if name != running.id]
    assert code(await order(store, parked[0], c.Pause("ann"))) == "moved"
    assert code(await complete(store, running)) == "moved"
    assert await claim_ids(store) == [parked[1]]
    assert code(await order(store, parked[0], c.Resume("ann"))) == "moved"
    assert await claim_ids(store) == [], "the limit is full"
    limits = await store.reads.limits(["one"])
    assert [(limit.running, limit.parked) for limit in limits] == [(1, 1)]


async def test_a_reserved_task_is_claimed_by_its_node(store: Store, clock: VirtualClock) -> None:
    (task_id,) = await put_plain(store, 1)
    first = await claim_one(store)
    assert code(await order(store, task_id, c.Reassign("ann", "node-b", 60.0))) == "moved"
    assert code(await runner_says(store, first, c.Complete("1"))) == "lease-lost"
    assert await claim_ids(store) == []
    assert (await store.by_id.claim_assigned(claim_request(node="node-c"))).tasks == []
    (task,) = (await store.by_id.claim_assigned(claim_request(node="node-b"))).tasks
    assert (task.id, task.node, task.assigned_to, task.gate) == (task_id, "node-b", None, None)


async def test_a_reservation_ends(store: Store, clock: VirtualClock) -> None:
    (task_id,) = await put_plain(store, 1)
    await order(store, task_id, c.Reassign("ann", "node-b", 60.0))
    due = DueChanges(store, lambda: None)
    assert await due.round() == 60.0
    clock.set(clock.now() + 60.0)
    assert await due.round() == 0.0
    assert await claim_ids(store) == [task_id]
    assert await due.round() is None


async def test_a_reservation_that_ended_during_a_pause_changes_no_ended_task(
    store: Store, clock: VirtualClock
) -> None:
    """The claim of a ready task does not look at reservations: what resumes the task takes it off."""
    (task_id,) = await put_plain(store, 1)
    assert code(await order(store, task_id, c.Pause("ann"))) == "moved"
    assert code(await order(store, task_id, c.Reassign("ann", "node-b", 60.0))) == "moved"
    clock.set(clock.now() + 61.0)
    assert code(await order(store, task_id, c.Resume("ann"))) == "moved"
    task = await claim_one(store)
    assert (task.assigned_to, task.assigned_until) == (None, None)
    await complete(store, task)
    ended = await get(store, task_id)
    assert await DueChanges(store, lambda: None).round() is None
    assert code(await order(store, task_id, c.Unassign())) == "illegal-transition"
    assert await get(store, task_id) == ended


async def test_a_runner_without_progress_is_stuck_and_may_recover(
    store: Store, clock: VirtualClock
) -> None:
    (task_id,) = await put_plain(store, 1, progress_timeout_seconds=5.0)
    task = await claim_one(store, lease_seconds=60.0)
    assert task.progress_due_at == (task.started_at or 0.0) + 5.0
    due = DueChanges(store, lambda: None)
    assert await due.round() == 5.0
    clock.set(clock.now() + 3.0)
    assert code(await runner_says(store, task, c.Report(progress_json='{"done":0.1}'))) == "moved"
    clock.set(clock.now() + 3.0)
    assert await due.round() == 2.0
    clock.set(clock.now() + 2.0)
    await due.round()
    assert await statuses(store) == {task_id: "stuck"}
    answer = await store.heartbeat("node-a", "{}", [task.run], 60.0)
    assert answer.lost == set(), "a stuck run keeps its lease"
    assert code(await runner_says(store, task, c.Report(progress_json='{"done":0.2}'))) == "moved"
    assert await statuses(store) == {task_id: "running"}
    clock.set(clock.now() + 5.0)
    await due.round()
    assert code(await complete(store, await get(store, task_id))) == "moved"
    assert (await kinds(store, task_id)).count("task.stuck") == 2
    assert (await kinds(store, task_id))[-2:] == ["task.unstuck", "task.completed"]
    counts = {row[3]: row[4] for row in await store.feed.counters() if row[4]}
    assert counts == {"completed": 1}


async def test_a_stuck_run_expires_like_any_other(store: Store, clock: VirtualClock) -> None:
    (task_id,) = await put_plain(store, 1, progress_timeout_seconds=5.0)
    task = await claim_one(store, lease_seconds=9.0)
    clock.set(clock.now() + 5.0)
    await DueChanges(store, lambda: None).round()
    assert await statuses(store) == {task_id: "stuck"}
    clock.set(clock.now() + 5.0)
    assert len((await store.sweep()).expired) == 1
    assert (await get(store, task_id)).fence == task.fence + 1
    assert await claim_ids(store) == [task_id]
