"""Dead letters return with the parent that they failed with, unless another parent is still dead."""

from __future__ import annotations

import asyncio

from holdfast.core.command import Abort, Instruction, Replay
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.task import Status
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    after,
    asked,
    check_counters,
    claim,
    complete,
    failing,
    finish_all,
    get,
    kill,
    kinds,
    order,
    put,
    runner_says,
    status,
    statuses,
)


async def cause(store: Store, task_id: str) -> str | None:
    failure = (await get(store, task_id)).failure
    assert failure is not None
    return failure.cause


async def replay(store: Store, *ids: str) -> None:
    await store.apply([Instruction(task_id, Replay("ann")) for task_id in ids])


async def two_dead_parents(store: Store) -> None:
    """Task c failed with p1, and p2 died later."""
    await put(store, "p1")
    await put(store, "p2")
    await put(store, "c", depends_on=after("p1", "p2"))
    await put(store, "g", depends_on=after("c"))
    await kill(store, "p1")
    await kill(store, "p2")
    assert await cause(store, "c") == "p1"


async def test_replaying_a_parent_revives_all_that_failed_with_it(store: Store) -> None:
    await put(store, "p")
    await put(store, "c", depends_on=after("p"))
    await put(store, "g", depends_on=after("c"))
    await put(store, "own")
    await kill(store, "p")
    await kill(store, "own")
    await replay(store, "p")
    assert await statuses(store) == {
        "p": "queued",
        "c": "blocked",
        "g": "blocked",
        "own": "failed",
    }
    assert "task.revived" in await kinds(store, "g")
    assert await finish_all(store) == ["p", "c", "g"]
    await check_counters(store)


async def test_a_child_of_two_dead_parents_comes_back_with_the_second(store: Store) -> None:
    await two_dead_parents(store)
    await replay(store, "p1")
    assert await finish_all(store) == ["p1"]
    assert await statuses(store) == {
        "p1": "completed",
        "p2": "failed",
        "c": "failed",
        "g": "failed",
    }
    await replay(store, "p2")
    assert (await get(store, "c")).waiting_on == 1
    assert await finish_all(store) == ["p2", "c", "g"]
    await check_counters(store)


async def test_a_child_that_stays_dead_names_the_parent_that_holds_it(store: Store) -> None:
    await two_dead_parents(store)
    before = await get(store, "c")
    await replay(store, "p1")
    child = await get(store, "c")
    assert await cause(store, "c") == "p2"
    assert child.error == "dependency p2 failed: ValueError: boom"
    assert child.version == before.version + 1
    assert child.finished_at == before.finished_at
    assert (await kinds(store, "c"))[-1] == "task.blamed"
    last = (await store.feed.history("c"))[-1]
    assert last.data == {"cause": "p2", "error": "dependency p2 failed: ValueError: boom"}
    assert await cause(store, "g") == "c"
    await check_counters(store)


async def test_replaying_the_other_parent_first_changes_nothing_for_the_child(store: Store) -> None:
    await two_dead_parents(store)
    before = await get(store, "c")
    await replay(store, "p2")
    assert await get(store, "c") == before
    await replay(store, "p1")
    assert (await get(store, "c")).waiting_on == 2
    assert sorted((await finish_all(store))[:2]) == ["p1", "p2"]
    assert await status(store, "g") is Status.COMPLETED


async def test_a_parent_that_dies_again_holds_the_child_again(store: Store) -> None:
    await two_dead_parents(store)
    await replay(store, "p1")
    await kill(store, "p1")
    await replay(store, "p2")
    assert await status(store, "c") is Status.FAILED
    assert await cause(store, "c") == "p1"
    await finish_all(store)
    await replay(store, "p1")
    assert await finish_all(store) == ["p1", "c", "g"]


async def test_a_revived_child_fails_again_with_its_parent(store: Store) -> None:
    await put(store, "p")
    await put(store, "c", depends_on=after("p"))
    for _ in range(3):
        await kill(store, "p")
        assert await cause(store, "c") == "p"
        await replay(store, "p")
        assert (await get(store, "c")).waiting_on == 1
    assert await finish_all(store) == ["p", "c"]
    await check_counters(store)


async def test_a_diamond_comes_back_as_a_whole(store: Store) -> None:
    await put(store, "top")
    await put(store, "left", depends_on=after("top"))
    await put(store, "right", depends_on=after("top"))
    await put(store, "bottom", depends_on=after("left", "right"))
    await kill(store, "top")
    await replay(store, "top")
    assert (await get(store, "bottom")).waiting_on == 2
    assert "task.blamed" not in await kinds(store, "bottom")
    assert await finish_all(store) == ["top", "left", "right", "bottom"]
    await check_counters(store)


async def test_a_short_way_and_a_long_way_to_one_child(store: Store) -> None:
    """The task is reached by the short path first, when the long path is not revived yet."""
    await put(store, "a")
    await put(store, "b", depends_on=after("a"))
    await put(store, "c", depends_on=after("b"))
    await put(store, "d", depends_on=after("a", "c"))
    await kill(store, "a")
    await replay(store, "a")
    assert (await get(store, "d")).waiting_on == 2
    assert (await kinds(store, "d")).count("task.revived") == 1
    assert "task.blamed" not in await kinds(store, "d")
    assert await finish_all(store) == ["a", "b", "c", "d"]


async def test_a_branch_that_stays_dead_keeps_what_hangs_on_it(store: Store) -> None:
    """The right side of the diamond has another dead parent."""
    await put(store, "top")
    await put(store, "other")
    await put(store, "left", depends_on=after("top"))
    await put(store, "right", depends_on=after("top", "other"))
    await put(store, "bottom", depends_on=after("left", "right"))
    await kill(store, "top")
    await kill(store, "other")
    assert await cause(store, "bottom") == "left"
    await replay(store, "top")
    assert await statuses(store) == {
        "top": "queued",
        "other": "failed",
        "left": "blocked",
        "right": "failed",
        "bottom": "failed",
    }
    assert (await cause(store, "right"), await cause(store, "bottom")) == ("other", "right")
    await replay(store, "other")
    assert await finish_all(store) == ["top", "other", "left", "right", "bottom"]
    await check_counters(store)


async def test_dead_parents_of_one_batch_fail_a_child_once(store: Store) -> None:
    await put(store, "p1")
    await put(store, "p2")
    await put(store, "c", depends_on=after("p1", "p2"))
    tasks = await claim(store, 2)
    await store.apply([Instruction(t.id, failing(final=True), fence=t.fence) for t in tasks])
    assert (await kinds(store, "c")).count("task.dead") == 1
    await replay(store, "p1", "p2")
    assert (await get(store, "c")).waiting_on == 2
    assert await finish_all(store) == ["p1", "p2", "c"]
    await check_counters(store)


async def test_a_parent_that_ended_well_meanwhile_is_not_waited_for_again(store: Store) -> None:
    await put(store, "p1")
    await put(store, "p2")
    await put(store, "c", depends_on=after("p1", "p2"))
    first, second = await claim(store, 2)
    await runner_says(store, first, failing(final=True))
    await complete(store, second)
    assert await status(store, "c") is Status.FAILED
    await replay(store, first.id)
    assert (await get(store, "c")).waiting_on == 1
    assert await finish_all(store) == [first.id, "c"]


async def test_a_parent_that_is_still_at_work_is_waited_for(store: Store) -> None:
    await put(store, "p1")
    await put(store, "p2", delay_seconds=60.0)
    await put(store, "c", depends_on=after("p1", "p2"))
    await kill(store, "p1")
    await replay(store, "p1")
    assert (await get(store, "c")).waiting_on == 2
    assert await finish_all(store) == ["p1"]
    assert await status(store, "c") is Status.BLOCKED


async def test_an_aborted_parent_never_comes_back_so_its_child_stays_dead(store: Store) -> None:
    await put(store, "p1")
    await put(store, "p2")
    await put(store, "c", depends_on=after("p1", "p2"))
    await kill(store, "p1")
    await order(store, "p2", Abort("ann"))
    await replay(store, "p1")
    await finish_all(store)
    assert await statuses(store) == {"p1": "completed", "p2": "aborted", "c": "failed"}
    assert await cause(store, "c") == "p2"
    await replay(store, "c")
    assert await finish_all(store) == ["c"]


async def test_discarding_the_cause_keeps_the_child_dead(store: Store) -> None:
    await two_dead_parents(store)
    await order(store, "p1", Abort("ann", "discarded"))
    await replay(store, "p2")
    await finish_all(store)
    assert await statuses(store) == {
        "p1": "aborted",
        "p2": "completed",
        "c": "failed",
        "g": "failed",
    }
    assert await cause(store, "c") == "p1"
    await check_counters(store)


async def test_discarding_the_other_dead_parent_keeps_the_child_dead(store: Store) -> None:
    await two_dead_parents(store)
    await replay(store, "p1")
    await order(store, "p2", Abort("ann", "discarded"))
    await finish_all(store)
    assert (await statuses(store))["c"] == "failed"
    assert await cause(store, "c") == "p2"
    await check_counters(store)


async def test_a_dead_parent_that_was_pruned_keeps_the_child_dead(bench: Bench) -> None:
    store = await bench.open()
    await put(store, "p1")
    await put(store, "p2")
    await put(store, "c", depends_on=after("p1", "p2"))
    first, second = await claim(store, 2)
    await runner_says(store, second, failing(final=True))
    await runner_says(store, first, failing(final=True))
    await bench.sql("UPDATE holdfast_task SET finished_at = finished_at - 100 WHERE id = 'p2'")
    old = store.now() - 5.0
    await store.prune(before=old, dead_before=old, feed_before=0.0, limit=10)
    assert set(await statuses(store)) == {"p1", "c"}
    assert await cause(store, "c") == "p2"
    await replay(store, "p1")
    assert await finish_all(store) == ["p1"]
    assert await status(store, "c") is Status.FAILED


async def test_a_child_that_is_blamed_on_a_pruned_parent_says_so(bench: Bench) -> None:
    store = await bench.open()
    await two_dead_parents(store)
    await bench.sql("UPDATE holdfast_task SET finished_at = finished_at - 100 WHERE id = 'p2'")
    old = store.now() - 5.0
    await store.prune(before=old, dead_before=old, feed_before=0.0, limit=10)
    await replay(store, "p1")
    assert await cause(store, "c") == "p2"
    assert (await get(store, "c")).error == "dependency p2 is gone: its record was pruned"


async def test_an_edge_that_ignores_failure_never_holds_a_child(store: Store) -> None:
    await put(store, "p1")
    await put(store, "p2")
    edges = (Edge("p1", DependencyPolicy.FAIL), Edge("p2", DependencyPolicy.IGNORE))
    await put(store, "c", depends_on=edges)
    await kill(store, "p1")
    await kill(store, "p2")
    await replay(store, "p2")
    assert await status(store, "c") is Status.FAILED
    await replay(store, "p1")
    assert (await get(store, "c")).waiting_on == 1
    assert sorted(await finish_all(store)) == ["c", "p1", "p2"]
    await check_counters(store)


async def test_a_child_that_failed_by_itself_is_left_alone(store: Store) -> None:
    await put(store, "p")
    await put(store, "c", depends_on=after("p"))
    await kill(store, "p")
    await replay(store, "c")
    await kill(store, "c")
    before = await get(store, "c")
    await replay(store, "p")
    assert await get(store, "c") == before
    await finish_all(store)
    assert await status(store, "c") is Status.FAILED


async def test_a_child_that_was_replayed_by_itself_brings_its_own_children_back(
    store: Store,
) -> None:
    await two_dead_parents(store)
    await replay(store, "c")
    assert await statuses(store) == {
        "p1": "failed",
        "p2": "failed",
        "c": "queued",
        "g": "blocked",
    }
    assert await finish_all(store) == ["c", "g"]
    await replay(store, "p1", "p2")
    assert await finish_all(store) == ["p1", "p2"]
    await check_counters(store)


async def test_parents_that_come_back_at_the_same_time_bring_their_child_back(
    shared_bench: Bench,
) -> None:
    """Neither transaction sees the uncommitted changes of the other. The last one to reach the child revives
    it, or the sweeper does if the child was held."""
    stores = [await shared_bench.open(), await shared_bench.open()]
    families = [(f"p{n}", f"q{n}", f"c{n}") for n in range(10)]
    for one, other, child in families:
        await put(stores[0], one)
        await put(stores[0], other)
        await put(stores[0], child, depends_on=after(one, other))
    tasks = await claim(stores[0], 20)
    await stores[0].apply([Instruction(t.id, failing(final=True), fence=t.fence) for t in tasks])
    for one, other, child in families:
        await asyncio.gather(replay(stores[0], one), replay(stores[1], other))
        for parent_id in await stores[0].cascades.pending():
            await stores[0].cascades.settle(parent_id)
        assert (await get(stores[0], child)).waiting_on == 2
        assert await status(stores[0], child) is Status.BLOCKED
    await check_counters(stores[0])


async def test_a_wide_graph_comes_back_at_once(store: Store) -> None:
    await put(store, "p")
    await store.insert([asked(store, f"c{n:03}", depends_on=after("p")) for n in range(300)])
    await kill(store, "p")
    await replay(store, "p")
    assert len(await store.reads.find(status=Status.BLOCKED, limit=500)) == 300
    await check_counters(store)
