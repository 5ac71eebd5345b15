"""Handed in and claimed in one commit: the outcome is that of one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.decide import Transition
from holdfast.core.task import Status
from holdfast.store.scripts import admin
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import (
    check_counters,
    complete,
    fresh,
    get,
    put_plain,
    read_all,
    wanted,
)


async def take_in(store: Store, *names: str, limit: int = 10, **fields: Any) -> list[str]:
    """The ids of what started."""
    group = [fresh(store, name, **fields) for name in names]
    _, claimed = await store.insert_and_claim(group, wanted(limit))
    for task in claimed.tasks:
        assert task == await get(store, task.id), "what the runner gets is what the store has"
    await check_counters(store)
    return [task.id for task in claimed.tasks]


async def test_a_task_alone_starts_with_its_enqueue(store: Store, clock: VirtualClock) -> None:
    task = fresh(store, "a")
    clock.set(clock.now() + 1)  # Handed in a while after it was made.
    inserted, claimed = await store.insert_and_claim([task], wanted(lease_seconds=7.0))
    assert [each.created for each in inserted] == [True]
    [started] = claimed.tasks
    assert started == await get(store, "a")
    assert (started.status, started.attempts, started.fence) == (Status.RUNNING, 1, 1)
    assert (started.version, started.created_at, started.lease_until) == (
        2,
        clock.now(),
        clock.now() + 7.0,
    )
    events = await read_all(store)
    assert [event.kind for event in events] == ["task.enqueued", "task.started"]
    assert [event.position.offset for event in events] == [1, 2]
    assert events[1].data == {"node": "node-a", "attempt": 1}
    assert [e.kind for e in await store.history("a")] == ["task.enqueued", "task.started"]
    await check_counters(store)
    assert isinstance(await complete(store, started), Transition)
    assert [event.position.offset for event in await read_all(store)] == [1, 2, 3]


async def test_waiting_tasks_start_before_a_new_one(store: Store, clock: VirtualClock) -> None:
    [waiting] = await put_plain(store, 1)
    clock.set(clock.now() + 1)
    assert await take_in(store, "new", limit=1) == [waiting]
    assert await take_in(store, "newer") == ["new", "newer"]


async def test_a_task_that_is_due_later_does_not_hold_up_a_new_one(store: Store) -> None:
    await put_plain(store, 1, delay_seconds=60.0)
    assert await take_in(store, "a") == ["a"]


@pytest.mark.parametrize(
    "fields", [{"delay_seconds": 5.0}, {"queue": "elsewhere"}, {"type": "unknown-here"}]
)
async def test_a_task_that_may_not_start_here_waits(store: Store, fields: dict[str, Any]) -> None:
    assert await take_in(store, "a", **fields) == []
    assert (await get(store, "a")).status is Status.QUEUED


async def test_a_paused_queue_starts_nothing(store: Store) -> None:
    await store.run(
        lambda dialect, ids, now: admin.pause_queue(
            dialect, ids, now, name="default", actor="me", reason=""
        )
    )
    assert await take_in(store, "a") == []
    assert (await get(store, "a")).status is Status.QUEUED


async def test_an_enqueue_that_is_repeated_starts_nothing_twice(store: Store) -> None:
    task = fresh(store, "a")
    await store.insert_and_claim([task], wanted())
    inserted, claimed = await store.insert_and_claim([task], wanted())
    assert ([each.created for each in inserted], claimed.tasks) == ([False], [])
    assert (await get(store, "a")).fence == 1


async def test_several_start_in_their_order(store: Store) -> None:
    assert await take_in(store, "a", "b", "c", limit=2) == ["a", "b"]
