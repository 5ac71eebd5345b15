"""Tasks whose rows another transaction holds, while their parents end or are revived: nothing waits for
them, and they are settled when they are free.

On PostgreSQL only: with one writer no other transaction holds a row.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import asyncpg
import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Complete, Instruction
from holdfast.core.decide import Transition
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.limit import LimitRule
from holdfast.core.schedule import CODE
from holdfast.core.task import Status, Task, TaskOptions
from holdfast.core.upkeep_rules import failed_with_parent
from holdfast.engine.pruning import Retention
from holdfast.engine.sweeper import Sweeper
from holdfast.queue.why import reasons_of
from holdfast.store.port import Rank, RowHeld
from holdfast.store.store import Store, is_held
from tests.conformance.tasks.helpers import (
    after,
    check_counters,
    check_limits,
    claim,
    claim_one,
    complete,
    failing,
    finish_all,
    get,
    kinds,
    put,
    put_plain,
    read_all,
    runner_says,
    status,
    statuses,
)
from tests.conformance.tasks.test_cascades import settle_all
from tests.conformance.tasks.test_returns import replay
from tests.conformance.tasks.test_schedules import Node, every

T = TypeVar("T")


async def soon(verb: Awaitable[T]) -> T:
    """Fails if it takes as long as a lock wait."""
    return await asyncio.wait_for(verb, 1.5)


@pytest.fixture
def cascade_batch() -> int:
    return 1_000


class Other:
    """Another transaction, which holds the rows of some tasks."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection
        self._open: asyncpg.transaction.Transaction | None = None

    async def hold(self, *ids: str, rows: str = "holdfast_task WHERE id") -> None:
        await self.let_go()
        self._open = self._connection.transaction()
        await self._open.start()
        await self._connection.execute(f"SELECT FROM {rows} = ANY($1) FOR UPDATE", list(ids))

    async def refer_to(self, task_id: str) -> None:
        await self._connection.execute(
            "CREATE TABLE theirs (task_id text REFERENCES holdfast_task(id))"
        )
        self._open = self._connection.transaction()
        await self._open.start()
        await self._connection.execute("INSERT INTO theirs VALUES ($1)", task_id)

    async def let_go(self) -> None:
        if self._open is not None:
            await self._open.rollback()
            self._open = None


@pytest.fixture
async def other(store: Store, pg_dsn: str) -> AsyncIterator[Other]:
    connection = await asyncpg.connect(pg_dsn)
    yield Other(connection)
    connection.terminate()


async def family(store: Store, *children: str) -> Task:
    await put(store, "p")
    for name in children:
        await put(store, name, depends_on=after("p"))
    return await claim_one(store)


async def test_a_parent_ends_while_a_child_is_held(store: Store, other: Other) -> None:
    cut_short: list[int] = []
    store.cascades.on_cut_short = lambda: cut_short.append(1)
    parent = await family(store, "a", "b", "c")
    await other.hold("b")
    assert isinstance(await soon(complete(store, parent)), Transition)
    found = await statuses(store)
    assert found == {"p": "completed", "a": "queued", "b": "blocked", "c": "queued"}
    assert cut_short == [1], "a sweeper is to come"
    assert await soon(store.cascades.pending()) == [], "nothing can be done now"
    assert await store.cascades.held() == [("p", "b")]
    assert await soon(store.cascades.settle("p")) == 0
    view = await store.reads.situation("b")
    assert view is not None
    assert [reason.code for reason in reasons_of(view)] == ["held"]
    await other.let_go()
    assert await store.cascades.pending() == ["p"]
    assert await store.cascades.settle("p") == 1
    assert await store.cascades.held() == []
    assert await store.cascades.settle("p") == 0
    child = await get(store, "b")
    assert (child.status, child.waiting_on) == (Status.QUEUED, 0)
    assert [e.task_id for e in await read_all(store) if e.kind == "task.unblocked"] == [*"acb"]
    await check_counters(store)


async def test_a_foreign_key_to_a_child_does_not_hold_it(store: Store, other: Other) -> None:
    parent = await family(store, "child")
    await other.refer_to("child")
    await soon(complete(store, parent))
    assert await status(store, "child") is Status.QUEUED


async def test_a_parent_with_a_held_child_is_not_pruned(
    store: Store, other: Other, clock: VirtualClock
) -> None:
    parent = await family(store, "child")
    await other.hold("child")
    await complete(store, parent)
    later = clock.now() + 1.0
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    await other.let_go()
    await settle_all(store)
    assert await status(store, "child") is Status.QUEUED
    await finish_all(store)
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    assert await statuses(store) == {}


async def test_a_held_child_gets_the_latest_state_of_its_parent(store: Store, other: Other) -> None:
    """The parent dies, is revived, dies and completes while children are held."""
    parent = await family(store, "child")
    for fails in (True, True, False):
        await other.hold("child")
        if fails:
            await soon(runner_says(store, parent, failing(final=True)))
            assert await status(store, "child") is Status.BLOCKED
            await soon(replay(store, "p"))
            assert await soon(store.cascades.pending()) == []
            parent = await claim_one(store)
        else:
            await soon(complete(store, parent))
    await other.let_go()
    await settle_all(store)
    child = await get(store, "child")
    assert (child.status, child.waiting_on) == (Status.QUEUED, 0)
    assert await kinds(store, "child") == ["task.enqueued", "task.unblocked"]


async def test_a_dead_child_that_is_held_comes_back_later(store: Store, other: Other) -> None:
    parent = await family(store, "child", "free")
    await runner_says(store, parent, failing(final=True))
    await other.hold("child")
    await soon(replay(store, "p"))
    assert await statuses(store) == {"p": "queued", "child": "failed", "free": "blocked"}
    await other.let_go()
    await settle_all(store)
    assert await status(store, "child") is Status.BLOCKED
    await complete(store, await claim_one(store))
    assert await status(store, "child") is Status.QUEUED


async def test_a_dead_child_that_is_held_blames_its_other_parent_later(
    store: Store, other: Other
) -> None:
    for name in ("p", "q"):
        await put(store, name)
    await put(store, "child", depends_on=after("p", "q"))
    for task in await claim(store):
        await runner_says(store, task, failing(final=True))
    await other.hold("child")
    await soon(replay(store, "p"))
    await other.let_go()
    await settle_all(store)
    failure = (await get(store, "child")).failure
    assert failure is not None
    assert failure.cause == "q"


async def test_a_held_child_keeps_no_lease_from_being_taken_back(
    store: Store, other: Other, clock: VirtualClock
) -> None:
    await put(store, "p", options=TaskOptions(max_deaths=1))
    await put(store, "child", depends_on=after("p"))
    await put_plain(store, 5)
    assert len(await claim(store)) == 6
    await other.hold("child")
    clock.set(clock.now() + 100.0)
    swept = await soon(store.sweep())
    assert len(swept.expired) == 6
    assert await status(store, "p") is Status.FAILED
    await other.let_go()
    await settle_all(store)
    assert await status(store, "child") is Status.FAILED


@pytest.mark.parametrize("cascade_batch", [3])
async def test_children_that_are_held_keep_no_batch_from_going_on(
    store: Store, other: Other
) -> None:
    names = [f"c{n:02}" for n in range(10)]
    parent = await family(store, *names)
    await other.hold(*names[:4], names[8])
    await soon(complete(store, parent))
    while parents := await store.cascades.pending():
        assert parents == ["p"]
        assert await soon(store.cascades.settle("p")) > 0
    found = await statuses(store)
    assert [n for n in names if found[n] == "blocked"] == [*names[:4], names[8]]
    assert len(await store.cascades.held()) == 5
    await other.let_go()
    assert await settle_all(store) == 2
    assert set((await statuses(store)).values()) == {"completed", "queued"}
    await check_counters(store)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cascade_batch", [1, 2, 1_000])
async def test_every_family_ends_in_any_interleaving_of_holders(
    store: Store, other: Other, seed: int
) -> None:
    """A drawn graph whose tasks fail, are replayed and end while other transactions hold rows of it. In
    the end everything has completed, each task after its parents, and was unblocked once per revival."""
    draw = random.Random(seed)
    names = [f"t{n:02}" for n in range(14)]
    parents = {
        name: draw.sample(names[:n], min(n, draw.randint(1, 3)))
        for n, name in enumerate(names)
        if n >= 3
    }
    for name in names:
        edges = tuple(Edge(p, DependencyPolicy.FAIL) for p in parents.get(name, []))
        await put(store, name, depends_on=edges)
    left = 40
    while True:
        await other.let_go()
        found = await statuses(store)
        held = draw.sample(names, draw.randint(0, 4)) if left else []
        await other.hold(*held)
        ready = await store.cascades.pending()
        dead = [name for name, each in found.items() if each == "failed" and name not in held]
        own = [name for name in dead if not failed_with_parent(await get(store, name))]
        may_run = [n for n, each in found.items() if each == "queued" and n not in held]
        choices = ["settle"] * bool(ready) + ["replay"] * bool(own) + ["run"] * bool(may_run)
        if not choices and not held:
            break
        match draw.choice(choices or ["wait"]):
            case "settle":
                await soon(store.cascades.settle(draw.choice(ready)))
            case "replay":
                await soon(replay(store, draw.choice(own)))
            case "run":
                for task in await soon(claim(store, 1)):
                    if left and draw.random() < 0.5:
                        await soon(runner_says(store, task, failing(final=True)))
                    else:
                        await soon(complete(store, task))
            case _:
                pass
        left = max(0, left - 1)
    assert set((await statuses(store)).values()) == {"completed"}
    assert await store.cascades.held() == []
    ends = [e.task_id for e in await read_all(store) if e.kind == "task.completed"]
    assert sorted(ends) == names
    for child, above in parents.items():
        assert all(ends.index(p) < ends.index(child) for p in above)
    await check_counters(store)


# -- what a batch of unrelated tasks shares ---------------------------------------------------------------


async def test_an_end_whose_row_is_held_delays_no_other_end(store: Store, other: Other) -> None:
    await put_plain(store, 3)
    running = await claim(store)
    await other.hold(running[1].id)
    ends = [(task, Instruction(task.id, Complete("1"), fence=task.fence)) for task in running]
    done = await store.finish(ends)
    assert [is_held(each) for each in done] == [False, True, False]
    assert is_held((await soon(store.finish_held([ends[1]])))[0])
    await other.let_go()
    assert isinstance((await store.finish_held([ends[1]]))[0], Transition)


async def test_an_end_whose_limit_is_held_delays_no_other_end(store: Store, other: Other) -> None:
    await put(store, "limited", type="limited", rules=(("key", LimitRule(max_running=1)),))
    await put_plain(store, 2)
    running = await claim(store)
    ends = [(task, Instruction(task.id, Complete("1"), fence=task.fence)) for task in running]
    await other.hold("key", rows="holdfast_limit WHERE name")
    done = await store.finish(ends)
    held = {task.id for (task, _), each in zip(ends, done, strict=True) if is_held(each)}
    assert held == {"limited"}
    limited = [each for each in ends if each[0].id == "limited"]
    with pytest.raises(RowHeld):
        await soon(store.reserved(Rank.LOOPS).finish_held(limited))
    await other.let_go()
    assert isinstance((await store.finish_held(limited))[0], Transition)
    await check_limits(store, "key")


async def test_a_limit_that_is_held_keeps_no_other_lease_from_being_taken_back(
    store: Store, other: Other, clock: VirtualClock
) -> None:
    await put(store, "limited", type="limited", rules=(("key", LimitRule(max_running=1)),))
    await put_plain(store, 3)
    assert len(await claim(store)) == 4
    await other.hold("key", rows="holdfast_limit WHERE name")
    sweeper = Sweeper(clock, store, Retention(), lambda: None, node="n", lease_seconds=9.0)
    clock.set(clock.now() + 100.0)
    await sweeper.step()
    await sweeper.step()
    found = await statuses(store)
    assert found.pop("limited") == "running"
    assert set(found.values()) == {"queued"}
    assert (sweeper.outages, sweeper.troubles) == (0, 0)
    await other.let_go()
    clock.set(clock.now() + 100.0)
    await sweeper.step()
    assert await status(store, "limited") is Status.QUEUED


@pytest.mark.parametrize("is_put", [True, False])
async def test_a_schedule_that_is_held_keeps_no_other_from_firing(
    store: Store, other: Other, clock: VirtualClock, is_put: bool
) -> None:
    """`is_put`: the rows belong to the code of a node that starts at that moment."""
    code = [every("a", owner=CODE), every("b", owner=CODE)]
    node = Node(store, clock, code)
    await node.tick()
    clock.set(clock.now() + 61.0)
    await other.hold("a", rows="holdfast_schedule WHERE name")
    if is_put:
        node = Node(store, clock, code)
    await node.tick()
    assert (node.scheduler.fired, node.scheduler.outages) == (1, 0)
    await other.let_go()
    await node.tick()
    assert node.scheduler.fired == 2
