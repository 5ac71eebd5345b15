"""The first in line alone: the same rules as for a claim of many."""

from __future__ import annotations

from typing import Any

from holdfast.clock import VirtualClock
from holdfast.core.limit import LimitRule
from holdfast.core.task import Status
from holdfast.store.scripts import admin
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import check_counters, claim, get, kinds, put, read_all, wanted


async def next_ids(store: Store, **fields: Any) -> list[str]:
    return [task.id for task in await store.claim_next(wanted(1, **fields))]


async def test_claim_next_starts_a_task_like_any_claim(store: Store, clock: VirtualClock) -> None:
    await put(store, "one", priority="high", queue="mail", payload={"a": [1]})
    await put(store, "many", priority="high", queue="mail", payload={"a": [1]})
    fields: dict[str, Any] = {
        "queues": ("default", "mail"),
        "node": 'a "node"',
        "lease_seconds": 7.0,
    }
    (first,) = await store.claim_next(wanted(1, **fields))
    (second,) = await claim(store, 5, **fields)
    assert first == await get(store, "one")
    assert (first.status, first.fence, first.lease_until) == (Status.RUNNING, 1, clock.now() + 7.0)
    events = {e.task_id: (e.kind, e.at, e.data) for e in await read_all(store)}
    assert events["one"] == events[second.id]
    assert await kinds(store, "one") == ["task.enqueued", "task.started"]
    await check_counters(store)


async def test_claim_next_takes_the_most_urgent_then_the_oldest(
    store: Store, clock: VirtualClock
) -> None:
    for name, priority, queue in (
        ("low", "low", "default"),
        ("late", "high", "default"),
        ("other queue", "high", "mail"),
        ("later", "high", "default"),
        ("urgent", "critical", "mail"),
    ):
        await put(store, name, priority=priority, queue=queue)
        clock.set(clock.now() + 0.001)
    found: list[str] = []
    while got := await next_ids(store, queues=("default", "mail")):
        found += got
    assert found == ["urgent", "late", "later", "other queue", "low"]


async def test_claim_next_leaves_tasks_that_cannot_start(store: Store, clock: VirtualClock) -> None:
    await put(store, "not due", delay_seconds=5.0)
    await put(store, "of another type", type="strange")
    await put(store, "of a paused queue", queue="mail")
    await store.run(
        lambda dialect, ids, now: admin.pause_queue(
            dialect, ids, now, name="mail", actor="me", reason=""
        )
    )
    assert await next_ids(store, queues=("default", "mail")) == []
    assert await next_ids(store, queues=("default",), types=("work", "strange")) == [
        "of another type"
    ]
    clock.set(clock.now() + 5.0)
    assert await next_ids(store, queues=("default", "mail")) == ["not due"]


async def test_claim_next_leaves_limited_tasks_to_a_general_claim(store: Store) -> None:
    await put(store, "limited", rules=(("key", LimitRule(max_running=1)),))
    await put(store, "behind")
    assert await next_ids(store) == []
    assert (await get(store, "limited")).status is Status.QUEUED
    assert {task.id for task in await claim(store, 5)} == {"limited", "behind"}


async def test_a_locked_task_is_not_waited_for(shared_bench: Bench) -> None:
    store, other = await shared_bench.open(), await shared_bench.open()
    await put(store, "a")
    assert await next_ids(store) == ["a"]
    assert await next_ids(other) == []
