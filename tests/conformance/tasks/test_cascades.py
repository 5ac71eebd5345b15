"""More dependents than one transaction settles: batches, and a crash between two of them."""

from __future__ import annotations

import random

import pytest

from holdfast.core.command import Abort, Replay
from holdfast.core.decide import Transition
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.task import Status
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    after,
    asked,
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

small_batches = pytest.mark.parametrize("cascade_batch", [3])


async def settle_all(store: Store) -> int:
    """Settles as sweepers do. Returns the number of batches."""
    batches = 0
    while parents := await store.cascades.pending():
        for parent_id in parents:
            assert await store.cascades.settle(parent_id) > 0
            batches += 1
    return batches


async def family(store: Store, children: int) -> list[str]:
    await put(store, "p")
    names = [f"c{n:02}" for n in range(children)]
    await store.insert([asked(store, name, depends_on=after("p")) for name in names])
    return names


@small_batches
@pytest.mark.parametrize("children", [2, 3, 4, 6, 7, 10])
@pytest.mark.parametrize("ends", ["completed", "failed", "aborted"])
async def test_a_wide_family_is_settled_in_batches(store: Store, children: int, ends: str) -> None:
    names = await family(store, children)
    cut_short: list[int] = []
    store.cascades.on_cut_short = lambda: cut_short.append(1)
    parent = await claim_one(store)
    match ends:
        case "completed":
            await complete(store, parent)
        case "failed":
            await runner_says(store, parent, failing(final=True))
        case _:
            await order(store, "p", Abort("me"))
    by_id = await statuses(store)
    expected = "queued" if ends == "completed" else "failed"
    assert by_id["p"] == ends
    assert [by_id[name] for name in names[:3]] == [expected] * min(3, children)
    assert [by_id[name] for name in names[3:]] == ["blocked"] * max(0, children - 3)
    assert bool(cut_short) == (children >= 3)
    await settle_all(store)
    by_id = await statuses(store)
    assert [by_id[name] for name in names] == [expected] * children
    settled = [
        e.task_id for e in await read_all(store) if e.kind in ("task.unblocked", "task.dead")
    ]
    assert sorted(settled) == sorted([*names, *(["p"] if ends == "failed" else [])]), "once each"
    await check_counters(store)


@small_batches
async def test_another_process_goes_on_after_a_crash(shared_bench: Bench) -> None:
    store = await shared_bench.open()
    names = await family(store, 20)
    await runner_says(store, await claim_one(store), failing(final=True))
    await store.cascades.settle("p")
    other = await shared_bench.open()
    await settle_all(other)
    assert {(await statuses(store))[name] for name in names} == {"failed"}
    assert await other.cascades.settle("p") == 0


@small_batches
async def test_a_parent_that_comes_back_stops_its_cascade(store: Store) -> None:
    """A replay between two batches: failed dependents return, the others have not changed."""
    names = await family(store, 8)
    await runner_says(store, await claim_one(store), failing(final=True))
    assert isinstance(await order(store, "p", Replay("me")), Transition)
    by_id = await statuses(store)
    assert {by_id[name] for name in names} == {"blocked"}
    await settle_all(store)
    by_id = await statuses(store)
    assert {by_id[name] for name in names} == {"blocked"}
    await complete(store, await claim_until(store, "p"))
    await settle_all(store)
    assert sorted(await finish_all(store)) == names
    await check_counters(store)


@small_batches
async def test_a_parent_is_kept_until_its_dependents_are_settled(
    bench: Bench, store: Store
) -> None:
    names = await family(store, 8)
    await complete(store, await claim_one(store))
    later = store.now() + 1_000.0
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    assert (await get(store, "p")).status is Status.COMPLETED
    await settle_all(store)
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    assert (await get(store, "p")).status is Status.COMPLETED, "its dependents read its result"
    assert sorted(await finish_all(store)) == names
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    assert await store.reads.get(["p"]) == {}
    [[edges]] = await bench.sql("SELECT count(*) FROM holdfast_edge")
    assert edges == 0, "edges go with the tasks that they belong to"


@pytest.mark.parametrize("seed", range(6))
async def test_batches_of_any_size_come_to_the_same_end(bench: Bench, seed: int) -> None:
    """In a random graph whose roots end in random ways, the batch size does not change how tasks end."""
    draw = random.Random(seed)
    size = 24
    edges = {
        n: [
            Edge(
                f"t{parent:02}",
                draw.choice(
                    [DependencyPolicy.FAIL, DependencyPolicy.FAIL, DependencyPolicy.IGNORE]
                ),
            )
            for parent in draw.sample(range(n), min(n, draw.randint(1, 3)))
        ]
        for n in range(4, size)
    }
    fails = {f"t{n:02}" for n in range(size) if draw.random() < 0.3}

    async def run(batch: int, prefix: str) -> dict[str, str]:
        bench.cascade_batch = batch
        store = await bench.open()
        for n in range(size):
            depends = tuple(Edge(prefix + e.parent_id, e.policy) for e in edges.get(n, []))
            await put(store, f"{prefix}t{n:02}", depends_on=depends)
        while True:
            await settle_all(store)
            claimed = await claim(store, 1)
            if not claimed:
                break
            task = claimed[0]
            if task.id.removeprefix(prefix) in fails:
                await runner_says(store, task, failing(final=True))
            else:
                await complete(store, task)
        await check_counters(store)
        by_id = await statuses(store)
        return {k.removeprefix(prefix): v for k, v in by_id.items() if k.startswith(prefix)}

    whole = await run(1_000, "w-")
    assert set(whole.values()) <= {"completed", "failed"}
    assert await run(1, "a-") == whole
    assert await run(2, "b-") == whole
