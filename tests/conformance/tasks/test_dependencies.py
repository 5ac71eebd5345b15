"""Dependencies: children are settled in the transaction of the parent, and fail and return with it."""

from __future__ import annotations

import pytest

from holdfast.core.command import Abort, Complete, Instruction, Replay
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.task import FailureKind, Status
from holdfast.errors import DependencyCycle, UnknownDependency
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import (
    after,
    asked,
    check_counters,
    claim,
    claim_ids,
    claim_one,
    complete,
    failing,
    finish_all,
    get,
    kill,
    kinds,
    order,
    put,
    read_all,
    runner_says,
    status,
    statuses,
)
from tests.statements import query


async def test_a_child_waits_for_its_parent(store: Store) -> None:
    await put(store, "p")
    inserted = await store.insert([asked(store, "c", depends_on=after("p"))])
    assert inserted[0].status is Status.BLOCKED
    assert (await get(store, "c")).waiting_on == 1
    parent = await claim_one(store)
    assert parent.id == "p"
    assert await claim(store) == []
    await complete(store, parent, '{"made":1}')
    child = await get(store, "c")
    assert (child.status, child.waiting_on) == (Status.QUEUED, 0)
    assert await claim_ids(store) == ["c"]
    assert await kinds(store, "c") == ["task.enqueued", "task.unblocked", "task.started"]
    await check_counters(store)


async def test_the_end_of_a_parent_and_of_its_wait_are_one_transaction(store: Store) -> None:
    await put(store, "p")
    await put(store, "c", depends_on=after("p"))
    await complete(store, await claim_one(store))
    events = await read_all(store)
    assert [(e.kind, e.task_id) for e in events[-2:]] == [
        ("task.completed", "p"),
        ("task.unblocked", "c"),
    ]
    assert events[-1].data == {"by": "p"}


async def test_a_child_that_came_after_the_claim_is_seen(store: Store) -> None:
    """The runner's copy of the parent has no dependents, but the store has one."""
    await put(store, "p")
    running = await claim_one(store)
    assert not running.has_dependents
    await put(store, "c", depends_on=after("p"))
    await complete(store, running)
    assert await status(store, "c") is Status.QUEUED


async def test_a_child_waits_for_both_of_its_parents(store: Store) -> None:
    await put(store, "p1")
    await put(store, "p2")
    await put(store, "c", depends_on=after("p1", "p2"))
    first, second = await claim(store, 2)
    await complete(store, first)
    assert (await get(store, "c")).waiting_on == 1
    assert await status(store, "c") is Status.BLOCKED
    await complete(store, second)
    assert await status(store, "c") is Status.QUEUED


async def test_two_parents_that_end_together(store: Store) -> None:
    await put(store, "p1")
    await put(store, "p2")
    await put(store, "c", depends_on=after("p1", "p2"))
    await store.apply(
        [Instruction(t.id, Complete("1"), fence=t.fence) for t in await claim(store, 2)]
    )
    assert await statuses(store) == {"p1": "completed", "p2": "completed", "c": "queued"}


async def test_a_diamond_in_one_batch(store: Store) -> None:
    await store.insert(
        [
            asked(store, "bottom", depends_on=after("left", "right")),
            asked(store, "left", depends_on=after("top")),
            asked(store, "right", depends_on=after("top")),
            asked(store, "top"),
        ]
    )
    assert await claim_ids(store) == ["top"]
    await complete(store, await get(store, "top"))
    assert sorted(await finish_all(store))[:1] == ["bottom"]
    done = await statuses(store)
    assert set(done.values()) == {"completed"}
    order_of_starts = [e.task_id for e in await read_all(store) if e.kind == "task.started"]
    assert order_of_starts[0] == "top"
    assert order_of_starts[-1] == "bottom"
    await check_counters(store)


async def test_a_parent_that_is_done_is_not_waited_for(store: Store) -> None:
    await put(store, "p")
    await finish_all(store)
    await put(store, "q")
    inserted = await store.insert([asked(store, "c", depends_on=after("p"))])
    assert inserted[0].status is Status.QUEUED
    await put(store, "d", depends_on=after("p", "q"))
    assert (await get(store, "d")).waiting_on == 1
    rows = await query(store, "dependencies", id="d")
    assert [tuple(row) for row in rows] == [
        ("p", "fail", 1, "completed"),
        ("q", "fail", 0, "queued"),
    ]
    await finish_all(store)
    assert await status(store, "d") is Status.COMPLETED


async def test_bad_dependencies_are_refused(store: Store) -> None:
    await put(store, "dead")
    await kill(store, "dead")
    with pytest.raises(UnknownDependency, match="missing"):
        await put(store, "c", depends_on=after("dead", "missing"))
    with pytest.raises(DependencyCycle, match="depend on each other"):
        await store.insert(
            [
                asked(store, "x", depends_on=after("y")),
                asked(store, "y", depends_on=after("z")),
                asked(store, "z", depends_on=after("x")),
            ]
        )
    assert set(await statuses(store)) == {"dead"}


@pytest.mark.parametrize("key", [None, "once"])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("end", ["failed", "aborted"])
async def test_a_child_dies_with_its_parent_whichever_of_the_two_came_first(
    store: Store, end: str, is_first: bool, key: str | None
) -> None:
    """The enqueue of a child races with the end of its parent. The result is the same in either order."""
    await put(store, "p")
    child = asked(store, "c", depends_on=after("p"), idempotency_key=key)
    if is_first:
        await store.insert([child])
    if end == "failed":
        await kill(store, "p")
    else:
        await order(store, "p", Abort("ann", "unwanted"))
    if not is_first:
        assert (await store.insert([child]))[0].created
    dead = await get(store, "c")
    assert dead.failure is not None
    assert (dead.status, dead.attempts) == (Status.FAILED, 0)
    assert (dead.failure.kind, dead.failure.cause) == (FailureKind.DEPENDENCY, "p")
    assert await kinds(store, "c") == ["task.enqueued", "task.failed", "task.dead"]
    rows = await query(store, "dependencies", id="c")
    assert [tuple(row)[:3] for row in rows] == [("p", "fail", 0)]
    await check_counters(store)
    if end == "failed":
        await order(store, "p", Replay("ann"))
        assert await status(store, "c") is Status.BLOCKED
        assert await finish_all(store) == ["p", "c"]
        await check_counters(store)


async def test_a_new_family_dies_with_a_dead_parent_in_one_transaction(store: Store) -> None:
    await put(store, "dead")
    await kill(store, "dead")
    await put(store, "alive")
    answers = await store.insert(
        [
            asked(store, "c", depends_on=after("alive", "dead")),
            asked(store, "g", depends_on=after("c")),
            asked(store, "free", depends_on=after("c", "dead", policy=DependencyPolicy.IGNORE)),
            asked(store, "other"),
        ]
    )
    assert [answer.status.value for answer in answers] == ["failed", "failed", "queued", "queued"]
    child = await get(store, "g")
    assert child.failure is not None
    assert child.failure.cause == "c"
    assert await kinds(store, "other") == ["task.enqueued"]
    await read_all(store)
    await check_counters(store)
    await order(store, "dead", Replay("ann"))
    assert {i: s for i, s in (await statuses(store)).items() if i in "cg"} == {
        "c": "blocked",
        "g": "blocked",
    }
    assert (await get(store, "c")).waiting_on == 2
    done = await finish_all(store)
    assert done[-2:] == ["c", "g"]
    assert set((await statuses(store)).values()) == {"completed"}
    await check_counters(store)


async def test_two_dead_parents_both_have_to_come_back(store: Store) -> None:
    for parent in ("p", "q"):
        await put(store, parent)
        await kill(store, parent)
    await put(store, "c", depends_on=after("p", "q"))
    await order(store, "p", Replay("ann"))
    dead = await get(store, "c")
    assert dead.failure is not None
    assert (dead.status, dead.failure.cause) == (Status.FAILED, "q")
    await order(store, "q", Replay("ann"))
    assert await status(store, "c") is Status.BLOCKED


async def test_a_dead_parent_whose_failure_is_ignored_is_not_waited_for(store: Store) -> None:
    await put(store, "dead")
    await kill(store, "dead")
    await put(store, "gone")
    await order(store, "gone", Abort("ann"))
    await put(store, "c", depends_on=after("dead", "gone", policy=DependencyPolicy.IGNORE))
    assert await status(store, "c") is Status.QUEUED


async def test_a_failure_falls_through_the_whole_graph(store: Store) -> None:
    await put(store, "p")
    await put(store, "c", depends_on=after("p"))
    await put(store, "g", depends_on=after("c"))
    await put(store, "gg", depends_on=after("g"))
    await put(store, "free", depends_on=after("c", policy=DependencyPolicy.IGNORE))
    await kill(store, "p")
    assert await statuses(store) == {
        "p": "failed",
        "c": "failed",
        "g": "failed",
        "gg": "failed",
        "free": "queued",
    }
    child = await get(store, "g")
    assert child.failure is not None
    assert (child.failure.kind, child.failure.cause) == (FailureKind.DEPENDENCY, "c")
    assert child.attempts == 0
    assert await kinds(store, "gg") == ["task.enqueued", "task.failed", "task.dead"]
    await check_counters(store)


async def test_an_abort_fails_the_dependents(store: Store) -> None:
    await put(store, "p")
    await put(store, "c", depends_on=after("p"))
    await order(store, "p", Abort("ann", "unwanted"))
    assert await statuses(store) == {"p": "aborted", "c": "failed"}
    assert (await get(store, "p")).held_by == "ann: unwanted"
    assert (await get(store, "c")).error == "dependency p aborted: by ann: unwanted"


async def test_an_abort_of_a_blocked_task_leaves_its_parent_alone(store: Store) -> None:
    await put(store, "p")
    await put(store, "c", depends_on=after("p"))
    await order(store, "c", Abort("ann"))
    await finish_all(store)
    assert await statuses(store) == {"p": "completed", "c": "aborted"}
    await check_counters(store)


async def test_a_retry_of_the_parent_keeps_the_child_waiting(store: Store) -> None:
    await put(store, "p")
    await put(store, "c", depends_on=after("p"))
    await runner_says(store, await claim_one(store), failing())
    assert await statuses(store) == {"p": "queued", "c": "blocked"}


async def test_a_wide_graph_settles_at_once(store: Store) -> None:
    await put(store, "p")
    await store.insert([asked(store, f"c{n:03}", depends_on=after("p")) for n in range(300)])
    await complete(store, await claim_one(store))
    assert len(await store.reads.find(status=Status.QUEUED, limit=500)) == 300
    dependents = await query(store, "dependents", id="p", limit=1000)
    assert len(dependents) == 300
    await check_counters(store)


async def test_edges_of_one_child_may_differ_in_policy(store: Store) -> None:
    await put(store, "p1")
    await put(store, "p2")
    edges = (Edge("p1", DependencyPolicy.IGNORE), Edge("p2", DependencyPolicy.FAIL))
    await put(store, "c", depends_on=edges)
    await kill(store, "p1")
    assert await status(store, "c") is Status.BLOCKED
    await finish_all(store)
    assert await status(store, "c") is Status.COMPLETED
