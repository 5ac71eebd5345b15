"""Retention by type on every store: tasks go when that of their type has passed, in bounded rounds."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    all_tasks,
    check_counters,
    claim,
    complete,
    fresh,
    kill,
    order,
    put,
)

DAY = 86_400.0


async def inserted(store: Store, *keeps: float | None, **fields: Any) -> list[str]:
    group = [fresh(store, keep_done_seconds=keep, **fields) for keep in keeps]
    return [answer.task_id for answer in await store.insert(group)]


async def complete_all(store: Store) -> None:
    for task in await claim(store):
        await complete(store, task)


async def prune(store: Store, limit: int = 1_000) -> int:
    now = store.now()
    return await store.prune(
        before=now - 7 * DAY, dead_before=now - 90 * DAY, feed_before=0.0, limit=limit
    )


async def left(store: Store) -> set[str]:
    return {task.id for task in await all_tasks(store)}


async def test_each_task_is_kept_as_its_type_says(store: Store, clock: VirtualClock) -> None:
    hour, usual, month = await inserted(store, 3_600.0, None, 30 * DAY)
    assert {task.keep_done_seconds for task in await all_tasks(store)} == {3_600.0, None, 30 * DAY}
    await complete_all(store)
    await prune(store)
    assert await left(store) == {hour, usual, month}
    clock.set(clock.now() + 3_601)
    await prune(store)
    assert await left(store) == {usual, month}
    clock.set(clock.now() + 7 * DAY)
    await prune(store)
    assert await left(store) == {month}
    await check_counters(store)
    clock.set(clock.now() + 23 * DAY)
    await prune(store)
    assert await left(store) == set()
    await check_counters(store)


@pytest.mark.parametrize("keep", [1.0, None])
async def test_a_parent_stays_while_a_dependent_waits_or_runs(
    store: Store, clock: VirtualClock, keep: float | None
) -> None:
    """The dependent reads its result."""
    await put(store, "early", keep_done_seconds=keep)
    await complete_all(store)
    await put(store, "late", queue="unserved")
    edges = (Edge("early", DependencyPolicy.FAIL), Edge("late", DependencyPolicy.FAIL))
    await put(store, "child", depends_on=edges, keep_done_seconds=keep)
    clock.set(clock.now() + 8 * DAY)
    await prune(store)
    assert await left(store) == {"early", "late", "child"}
    [late] = await claim(store, queues=["unserved"])
    await complete(store, late)
    [child] = await claim(store)
    assert child.id == "child"
    await prune(store)
    assert "early" in await left(store)
    await complete(store, child)
    await prune(store)
    assert await left(store) == {"late", "child"}
    await check_counters(store)


async def test_waiting_tasks_stay_and_dead_letters_have_their_own_retention(
    store: Store, clock: VirtualClock
) -> None:
    await put(store, "waiting", keep_done_seconds=1.0, queue="unserved")
    await put(store, "aborted", keep_done_seconds=1.0)
    await order(store, "aborted", Abort("ann", "why"))
    await put(store, "dead", keep_done_seconds=1.0)
    await kill(store, "dead")
    clock.set(clock.now() + 2)
    await prune(store)
    assert await left(store) == {"waiting", "dead"}
    clock.set(clock.now() + 91 * DAY)
    await prune(store)
    assert await left(store) == {"waiting"}


async def test_rounds_are_bounded_and_what_belongs_to_a_task_goes_too(
    bench: Bench, clock: VirtualClock
) -> None:
    store = await bench.open()
    await inserted(store, *[1.0] * 5, tags=("vip",))
    await complete_all(store)
    clock.set(clock.now() + 2)
    assert [await prune(store, limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert list(await bench.sql("SELECT task_id FROM holdfast_task_tag")) == []
