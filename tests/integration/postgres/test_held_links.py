"""Children in open transactions of callers: their parents go on, and links are made later."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Report
from holdfast.core.decide import Transition
from holdfast.core.dependency import DependencyPolicy
from holdfast.core.task import Status, Task
from holdfast.engine.pruning import PRUNE_SECONDS, Retention
from holdfast.engine.sweeper import Sweeper
from holdfast.store.links import LINK_BATCH, LinkStore
from holdfast.store.port import Rank
from holdfast.store.store import Store
from tests.backends import PostgresBench
from tests.conformance.tasks.helpers import (
    after,
    asked,
    check_counters,
    claim,
    claim_ids,
    claim_one,
    complete,
    failing,
    get,
    kinds,
    put,
    put_plain,
    read_all,
    runner_says,
    status,
)
from tests.integration.postgres.held_support import (
    Caller,
    beat,
    caller,
    soon,
    take_step,
    until_one_waits,
)
from tests.looks import look_again

__all__ = ["caller"]


async def test_an_open_enqueue_of_a_child_costs_no_lease(
    store: Store, clock: VirtualClock, caller: Caller
) -> None:
    await put(store, "parent")
    await put_plain(store, 5)
    running = await claim(store)
    child = asked(store, "child", depends_on=after("parent"))
    await store.insert([child], tx=caller.connection)
    for _ in range(5):
        clock.set(clock.now() + 6.0)
        assert await beat(store, *running) == set()
        assert (await soon(store.sweep())).expired == []
    assert {task.deaths for task in (await store.reads.get([t.id for t in running])).values()} == {
        0
    }
    await caller.commit()
    assert (await store.links.link()).done == 1
    for task in running:
        assert isinstance(await soon(complete(store, task)), Transition)
    assert await claim_ids(store) == ["child"]
    await check_counters(store)


async def test_a_parent_in_line_is_claimed_while_its_child_is_not_committed(
    store: Store, caller: Caller
) -> None:
    await put(store, "parent")
    child = asked(store, "child", depends_on=after("parent"))
    await store.insert([child], tx=caller.connection)
    parent = await soon(claim_one(store))
    assert isinstance(await soon(runner_says(store, parent, Report("0.5"))), Transition)
    await caller.commit()
    assert (await store.links.link()).done == 1
    await complete(store, parent)
    assert await claim_ids(store) == ["child"]


@pytest.mark.parametrize("policy", list(DependencyPolicy))
@pytest.mark.parametrize("end", ["completes", "dies"])
async def test_a_parent_that_ends_before_the_commit_is_found_by_the_link(
    store: Store, caller: Caller, policy: DependencyPolicy, end: str
) -> None:
    await put(store, "parent")
    parent = await claim_one(store)
    edges = after("parent", policy=policy)
    await store.insert([asked(store, "child", depends_on=edges)], tx=caller.connection)
    if end == "completes":
        await soon(complete(store, parent))
    else:
        await soon(runner_says(store, parent, failing(final=True)))
    await caller.commit()
    assert await status(store, "child") is Status.BLOCKED
    assert (await store.links.link()).done == 1
    fell = end == "dies" and policy is DependencyPolicy.FAIL
    assert await status(store, "child") is (Status.FAILED if fell else Status.QUEUED)
    assert (await store.links.link()).done == 0
    assert (await kinds(store, "child"))[1] == ("task.failed" if fell else "task.unblocked")
    await check_counters(store)
    await read_all(store)


async def test_a_link_leaves_what_is_rolled_back_and_what_is_not_committed(
    store: Store, caller: Caller
) -> None:
    await put(store, "parent")
    child = asked(store, "child", depends_on=after("parent"))
    await store.insert([child], tx=caller.connection)
    assert (await soon(store.links.link())).done == 0
    await caller.rollback()
    assert (await store.links.link()).done == 0
    assert isinstance(await complete(store, await claim_one(store)), Transition)
    assert await store.reads.get(["child"]) == {}


async def test_a_parent_that_is_held_is_linked_later(store: Store, caller: Caller) -> None:
    await put(store, "parent")
    await put(store, "other")
    connection = caller.connection
    group = [asked(store, f"of-{p}", depends_on=after(p)) for p in ("parent", "other")]
    await store.insert(group, tx=connection)
    await caller.commit()
    async with connection.transaction():
        await connection.execute("SELECT FROM holdfast_task WHERE id = 'parent' FOR UPDATE")
        assert await soon(store.links.link()) == (1, False)
    assert (await store.links.link()).done == 1


async def test_a_child_that_is_held_is_linked_later(store: Store, caller: Caller) -> None:
    """Its parent has ended, so the link would change it. More such children than one batch precede it."""
    await put(store, "a")
    await put(store, "b")
    names = [f"a-{n:05}" for n in range(LINK_BATCH + 1)]
    children = [asked(store, name, depends_on=after("a")) for name in names]
    connection = caller.connection
    await store.insert([*children, asked(store, "free", depends_on=after("b"))], tx=connection)
    for _ in range(2):
        await complete(store, await claim_one(store))
    await caller.commit()
    async with connection.transaction():
        await connection.execute("SELECT FROM holdfast_task WHERE id LIKE 'a-%' FOR UPDATE")
        assert await soon(store.links.link()) == (1, False)
        assert await status(store, "free") is Status.QUEUED
        assert await soon(store.links.link()) == (0, False)
    assert await store.links.link() == (LINK_BATCH, False)
    assert await store.links.link() == (1, True)
    assert await status(store, names[0]) is Status.QUEUED
    await check_counters(store)


async def test_a_held_parent_with_many_children_delays_no_other_parent(
    store: Store, caller: Caller
) -> None:
    """More children than one batch."""
    for parent in ("a", "b", "c"):
        await put(store, parent)
    children = [asked(store, depends_on=after("a")) for _ in range(2 * LINK_BATCH)]
    others = [asked(store, f"of-{parent}", depends_on=after(parent)) for parent in ("b", "c")]
    connection = caller.connection
    await store.insert(children + others, tx=connection)
    await caller.commit()
    async with connection.transaction():
        await connection.execute("SELECT FROM holdfast_task WHERE id = 'a' FOR UPDATE")
        assert await soon(store.links.link()) == (2, False)
        assert await soon(store.links.link()) == (0, False)
    assert await store.links.link() == (LINK_BATCH, False)
    assert await store.links.link() == (LINK_BATCH, True)


async def test_a_parent_whose_step_is_in_an_open_transaction_is_linked(
    store: Store, caller: Caller, pg_dsn: str
) -> None:
    """The step only needs the row to stay; it may take minutes."""
    await put(store, "parent")
    parent = await claim_one(store)
    await store.insert([asked(store, "child", depends_on=after("parent"))], tx=caller.connection)
    await caller.commit()
    stepping = Caller(await asyncpg.connect(pg_dsn))
    await stepping.begin()
    await take_step(store, parent, stepping)
    assert await soon(store.links.link()) == (1, True)
    await stepping.commit()
    await stepping.connection.close()
    await complete(store, parent)
    assert await claim_ids(store) == ["child"]


async def _leave_bad_child(store: Store, caller: Caller) -> None:
    """An unlinked child of an ended parent, with a row that cannot be read."""
    await put(store, "ended")
    parent = await claim_one(store)
    group = [asked(store, child, depends_on=after("ended")) for child in ("a-bad", "b-good")]
    await store.insert(group, tx=caller.connection)
    await caller.connection.execute("UPDATE holdfast_task SET status = 'no' WHERE id = 'a-bad'")
    await complete(store, parent)
    await caller.commit()


async def test_a_child_that_cannot_be_linked_delays_no_other(
    store: Store, clock: VirtualClock, caller: Caller
) -> None:
    await _leave_bad_child(store, caller)
    woken = []
    sweeper = Sweeper(
        clock, store, Retention(), lambda: woken.append(1), node="n", lease_seconds=9.0
    )
    await sweeper.step()
    assert await status(store, "b-good") is Status.QUEUED, "a child of the same parent"
    assert woken
    assert sweeper.troubles == 2, "together, and the bad one alone"
    assert await store.links.link(without=["a-bad"]) == (0, True)
    await caller.connection.execute(
        "UPDATE holdfast_task SET status = 'blocked' WHERE id = 'a-bad'"
    )
    clock.set(clock.now() + PRUNE_SECONDS)
    await sweeper.step()
    await sweeper.step()
    assert await status(store, "a-bad") is Status.QUEUED


async def test_an_insert_is_not_affected_by_children_of_others(
    store: Store, caller: Caller
) -> None:
    await _leave_bad_child(store, caller)
    await put(store, "parent")
    running = await claim_one(store)
    keyed = asked(store, "mine", depends_on=after("parent"), idempotency_key="k")
    assert (await soon(store.insert([keyed])))[0].created
    await complete(store, running)
    assert await claim_ids(store) == ["mine"], "it was linked at once"
    await caller.connection.execute(
        "UPDATE holdfast_task SET status = 'blocked' WHERE id = 'a-bad'"
    )


async def test_a_committed_insert_raises_nothing_when_its_link_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await put(store, "parent")
    running = await claim_one(store)

    async def failing_link(*_: object) -> int:
        raise ValueError("a row cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(LinkStore, "link_these", failing_link)
        keyed = asked(store, "child", depends_on=after("parent"), idempotency_key="k")
        assert (await store.insert([keyed]))[0].created
    assert "a row cannot be read" in caplog.text
    await complete(store, running)
    assert await status(store, "child") is Status.BLOCKED
    assert await store.links.link() == (1, True)
    assert await claim_ids(store) == ["child"]


async def test_an_edge_that_was_met_is_not_judged_when_its_parent_is_pruned(
    store: Store, clock: VirtualClock, caller: Caller
) -> None:
    await put(store, "done")
    await complete(store, await claim_one(store))
    await put(store, "open")
    edges = after("done", "open")
    await store.insert([asked(store, "child", depends_on=edges)], tx=caller.connection)
    await caller.commit()
    later = clock.now() + 1.0
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    assert await store.links.link() == (2, True)
    child = await get(store, "child")
    assert (child.status, child.waiting_on) == (Status.BLOCKED, 1)


async def test_two_links_settle_an_edge_to_a_pruned_parent_once(
    store: Store, clock: VirtualClock, caller: Caller
) -> None:
    await put(store, "pruned")
    running = await claim_one(store)
    await put(store, "open", delay_seconds=1_000.0)
    edges = after("pruned", "open", policy=DependencyPolicy.IGNORE)
    connection = caller.connection
    await store.insert([asked(store, "child", depends_on=edges)], tx=connection)
    await complete(store, running)
    later = clock.now() + 1.0
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    await caller.commit()
    async with connection.transaction():
        await connection.execute("LOCK TABLE holdfast_edge IN SHARE MODE")  # locks, no updates
        first = asyncio.create_task(store.reserved(Rank.LOOPS).links.link())
        await until_one_waits(connection)
        assert (await soon(store.links.link())).done == 0
    assert await soon(first) == (2, True)
    child = await get(store, "child")
    assert (child.status, child.waiting_on) == (Status.BLOCKED, 1)


async def test_a_link_to_a_pruned_parent_follows_the_policy_of_its_edge(
    store: Store, clock: VirtualClock, caller: Caller
) -> None:
    await put(store, "parent")
    parent = await claim_one(store)
    group = [
        asked(store, "strict", depends_on=after("parent")),
        asked(store, "easy", depends_on=after("parent", policy=DependencyPolicy.IGNORE)),
    ]
    await store.insert(group, tx=caller.connection)
    await complete(store, parent)
    later = clock.now() + 1.0
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    await caller.commit()
    assert (await store.links.link()).done == 2
    assert await status(store, "easy") is Status.QUEUED
    dead = await get(store, "strict")
    assert dead.status is Status.FAILED
    assert "pruned" in (dead.error or "")


async def test_racing_links_and_ends_leave_nothing_blocked(
    bench: PostgresBench, store: Store, pg_dsn: str
) -> None:
    others = [await bench.open() for _ in range(2)]
    for n in range(30):
        await put(store, f"parent-{n:02}")
    running = await claim(store, 30)

    async def enqueue(task: Task) -> None:
        connection = await asyncpg.connect(pg_dsn)
        async with connection.transaction():
            child = asked(store, f"child-{task.id}", depends_on=after(task.id))
            await store.insert([child], tx=connection)
        await connection.close()
        await others[0].links.link()

    ends = [complete(others[1], task) for task in running]
    await asyncio.gather(*(enqueue(task) for task in running), *ends)
    while (await store.links.link()).done:
        await look_again()
    assert len(await claim(store, 100)) == 30
    await check_counters(store)
