"""More dead letters return with a parent than one transaction revives: the rest follows in batches."""

from __future__ import annotations

import random

import pytest

from holdfast.core.command import Abort, Replay
from holdfast.core.decide import Refusal, Transition
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.task import Status
from holdfast.core.upkeep_rules import failed_with_parent
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    after,
    check_counters,
    claim,
    claim_one,
    claim_until,
    complete,
    failing,
    finish_all,
    get,
    order,
    put,
    read_all,
    runner_says,
    statuses,
)
from tests.conformance.tasks.test_cascades import family, settle_all, small_batches


async def dead_family(store: Store, children: int) -> list[str]:
    names = await family(store, children)
    await runner_says(store, await claim_one(store), failing(final=True))
    await settle_all(store)
    assert {(await statuses(store))[name] for name in names} == {"failed"}
    return names


async def replay(store: Store, task_id: str) -> None:
    assert isinstance(await order(store, task_id, Replay("me")), Transition)


@small_batches
@pytest.mark.parametrize("children", [2, 3, 4, 6, 7, 10])
async def test_a_wide_dead_family_comes_back_in_batches(store: Store, children: int) -> None:
    names = await dead_family(store, children)
    cut_short: list[int] = []
    store.cascades.on_cut_short = lambda: cut_short.append(1)
    await replay(store, "p")
    by_id = await statuses(store)
    assert [by_id[name] for name in names[:3]] == ["blocked"] * min(3, children)
    assert [by_id[name] for name in names[3:]] == ["failed"] * max(0, children - 3)
    assert bool(cut_short) == (children >= 3)
    await settle_all(store)
    by_id = await statuses(store)
    assert [by_id[name] for name in names] == ["blocked"] * children
    revived = [e.task_id for e in await read_all(store) if e.kind == "task.revived"]
    assert sorted(revived) == names, "once each"
    await complete(store, await claim_until(store, "p"))
    await settle_all(store)
    assert sorted(await finish_all(store)) == names
    await check_counters(store)


@small_batches
async def test_another_process_brings_back_the_rest_after_a_crash(shared_bench: Bench) -> None:
    store = await shared_bench.open()
    names = await dead_family(store, 20)
    await replay(store, "p")
    await store.cascades.settle("p")
    other = await shared_bench.open()
    await settle_all(other)
    assert {(await statuses(store))[name] for name in names} == {"blocked"}
    assert await other.cascades.settle("p") == 0


@small_batches
@pytest.mark.parametrize("batches", [0, 1, 2])
async def test_a_parent_that_completes_first_takes_all_along(store: Store, batches: int) -> None:
    """The parent ends before all its dependents are revived."""
    names = await family(store, 11)
    await put(store, "below", depends_on=after(names[-1]))
    await runner_says(store, await claim_one(store), failing(final=True))
    await settle_all(store)
    assert (await get(store, "below")).status is Status.FAILED
    await replay(store, "p")
    for _ in range(batches):
        await store.cascades.settle("p")
    await complete(store, await claim_until(store, "p"))
    await settle_all(store)
    by_id = await statuses(store)
    assert {by_id[name] for name in names} == {"queued"}
    assert by_id["below"] == "blocked"
    done = []
    while more := await finish_all(store):
        done += more
        await settle_all(store)
    assert sorted(done) == sorted([*names, "below"])
    await check_counters(store)


@small_batches
@pytest.mark.parametrize("batches", [0, 1, 2])
@pytest.mark.parametrize("ends", ["failed", "aborted"])
async def test_a_parent_that_dies_again_takes_all_along(
    store: Store, batches: int, ends: str
) -> None:
    names = await dead_family(store, 11)
    await replay(store, "p")
    for _ in range(batches):
        await store.cascades.settle("p")
    if ends == "failed":
        await runner_says(store, await claim_until(store, "p"), failing(final=True))
    else:
        await order(store, "p", Abort("me"))
    await settle_all(store)
    tasks = [await get(store, name) for name in names]
    assert {task.status for task in tasks} == {Status.FAILED}
    assert {task.failure.cause for task in tasks if task.failure} == {"p"}
    if ends == "failed":
        await replay(store, "p")
        await settle_all(store)
        assert {(await statuses(store))[name] for name in names} == {"blocked"}
    await check_counters(store)


@small_batches
async def test_a_revived_task_does_not_start_before_its_parent(store: Store) -> None:
    names = await dead_family(store, 6)
    await replay(store, "p")
    refused = await order(store, names[-1], Replay("me"))
    assert isinstance(refused, Refusal)
    assert (refused.code, "comes back by itself" in refused.message) == ("illegal-transition", True)
    await settle_all(store)
    assert (await get(store, names[-1])).status is Status.BLOCKED


@small_batches
async def test_a_child_with_another_dead_parent_stays_dead_and_names_it(store: Store) -> None:
    for parent in ("p", "q"):
        await put(store, parent)
    names = [f"c{n:02}" for n in range(8)]
    of_both = names[::3]
    for name in names:
        await put(store, name, depends_on=after("p", "q") if name in of_both else after("p"))
    for task in await claim(store):
        await runner_says(store, task, failing(final=True))
    await settle_all(store)
    await replay(store, "p")
    await settle_all(store)
    tasks = {name: await get(store, name) for name in names}
    assert [n for n in names if tasks[n].status is Status.FAILED] == of_both
    assert {f.cause for n in of_both if (f := tasks[n].failure)} == {"q"}
    assert isinstance(await order(store, of_both[0], Replay("me")), Transition), "run without it"
    await replay(store, "q")
    await settle_all(store)
    assert {(await statuses(store))[name] for name in names[1:]} == {"blocked"}
    await check_counters(store)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cascade_batch", [1, 2, 1_000])
async def test_every_family_ends_in_any_interleaving(bench: Bench, seed: int) -> None:
    """In a random graph tasks fail, are replayed and end while earlier batches are in progress. In the end
    all tasks have completed, each after its parents."""
    draw = random.Random(seed)
    store = await bench.open()
    size = 16
    parents = {
        f"t{n:02}": [f"t{p:02}" for p in draw.sample(range(n), min(n, draw.randint(1, 3)))]
        for n in range(3, size)
    }
    for n in range(size):
        edges = tuple(Edge(p, DependencyPolicy.FAIL) for p in parents.get(f"t{n:02}", []))
        await put(store, f"t{n:02}", depends_on=edges)
    left = 60  # A limit of failures, so that the test ends.
    while True:
        by_id = await statuses(store)
        waiting = await store.cascades.pending()
        dead = sorted(name for name, status in by_id.items() if status == "failed")
        own = [d for d in dead if not failed_with_parent(await get(store, d))]
        choices = ["settle"] * bool(waiting) + ["replay"] * bool(own)
        choices += ["run"] * ("queued" in by_id.values())
        if not choices:
            break
        match draw.choice(choices):
            case "settle":
                assert await store.cascades.settle(draw.choice(waiting)) > 0
            case "replay":
                await replay(store, draw.choice(own))
            case _:
                for task in await claim(store, 1):
                    if left and draw.random() < 0.5:
                        left -= 1
                        await runner_says(store, task, failing(final=True))
                    else:
                        await complete(store, task)
    assert set((await statuses(store)).values()) == {"completed"}
    order_of_ends = [e.task_id for e in await read_all(store) if e.kind == "task.completed"]
    for child, above in parents.items():
        assert all(order_of_ends.index(p) < order_of_ends.index(child) for p in above)
    await check_counters(store)
