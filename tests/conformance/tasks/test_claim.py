"""Claims: the order of tasks, tasks that are not claimed, and the state of a claimed task."""

from __future__ import annotations

import asyncio

from holdfast.clock import VirtualClock
from holdfast.core.task import Priority, Status
from holdfast.store.scripts import admin
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    check_counters,
    claim,
    claim_ids,
    claim_one,
    claim_request,
    fresh,
    get,
    put,
    put_plain,
    read_all,
)


async def test_a_claim_starts_an_attempt_under_a_new_fence(
    store: Store, clock: VirtualClock
) -> None:
    await put(store, "a")
    clock.set(clock.now() + 1)
    task = await claim_one(store, node="node-x", lease_seconds=7.0)
    assert task == await get(store, "a")
    assert (task.status, task.attempts, task.fence, task.version) == (Status.RUNNING, 1, 1, 2)
    assert (task.node, task.started_at, task.lease_until) == (
        "node-x",
        clock.now(),
        clock.now() + 7.0,
    )
    event = (await read_all(store))[-1]
    assert (event.kind, event.task_id, event.at) == ("task.started", "a", clock.now())
    assert event.data == {"node": "node-x", "attempt": 1, "fence": 1}
    await check_counters(store)


async def test_urgent_first_then_first_come_first_served(store: Store, clock: VirtualClock) -> None:
    ids = []
    for n, priority in enumerate(["low", "normal", "critical", "high"] * 3):
        ids.append((priority, await put(store, f"{n:02}", priority=priority)))
        clock.set(clock.now() + 0.001)
    rank = {"critical": 0, "high": 1, "normal": 2, "low": 3}
    assert await claim_ids(store, 20) == [i for _, i in sorted(ids, key=lambda x: rank[x[0]])]


async def test_a_claim_takes_at_most_its_limit(store: Store) -> None:
    ids = await put_plain(store, 5)
    assert await claim_ids(store, 2) == ids[:2]
    assert await claim_ids(store, 2) == ids[2:4]
    assert await claim_ids(store, 2) == ids[4:]
    assert await claim_ids(store, 2) == []


async def test_a_lower_priority_fills_what_is_left(store: Store) -> None:
    low = await put_plain(store, 3, priority="low")
    high = await put_plain(store, 2, priority="high")
    assert await claim_ids(store, 4) == high + low[:2]


async def test_a_task_waits_until_it_is_due(store: Store, clock: VirtualClock) -> None:
    await put(store, "later", delay_seconds=10.0)
    await put(store, "soon", delay_seconds=5.0, queue="mail")
    assert await claim_ids(store, queues=("default", "mail")) == []
    assert (await store.backlog.next_due(["default", "mail"])).due_at == clock.now() + 5.0
    assert (await store.backlog.next_due(["default"])).due_at == clock.now() + 10.0
    assert (await store.backlog.next_due(["nowhere"])).due_at is None
    clock.set(clock.now() + 5.0)
    assert await claim_ids(store, queues=("default", "mail")) == ["soon"]
    clock.set(clock.now() + 5.0)
    assert (await store.backlog.next_due(["default"])).due_at is None, (
        "what is due already is no wake-up"
    )
    due_since_a_look = (await store.backlog.next_due(["default"], after=clock.now() - 1.0)).due_at
    assert due_since_a_look == clock.now(), "but for a claim that judged it too early"
    assert await claim_ids(store, queues=("default", "mail")) == ["later"]


async def test_a_due_time_orders_within_a_priority(store: Store, clock: VirtualClock) -> None:
    await put(store, "second", delay_seconds=2.0)
    await put(store, "first", delay_seconds=1.0)
    clock.set(clock.now() + 3.0)
    assert await claim_ids(store) == ["first", "second"]


async def test_only_types_with_a_handler_are_handed_out(store: Store) -> None:
    await put(store, "a", type="work")
    await put(store, "b", type="other")
    assert await claim_ids(store, types=("other",)) == ["b"]
    assert await claim_ids(store, types=("unknown",)) == []
    assert await claim_ids(store, types=("work", "other")) == ["a"]


async def test_a_claim_takes_only_from_the_queues_asked_for(
    store: Store, clock: VirtualClock
) -> None:
    for queue in ("a", "b", "c"):
        await put(store, queue, queue=queue, priority="high" if queue == "b" else "normal")
        clock.set(clock.now() + 0.001)
    assert await claim_ids(store, queues=("c", "b")) == ["b", "c"]
    assert await claim_ids(store, queues=("a",)) == ["a"]


async def test_priority_goes_before_the_order_of_queues(store: Store) -> None:
    await put_plain(store, 2, queue="first", priority="low")
    urgent = await put_plain(store, 2, queue="second", priority="critical")
    assert await claim_ids(store, 2, queues=("first", "second")) == urgent


async def test_a_paused_queue_hands_out_nothing(store: Store) -> None:
    await put(store, "a")
    await put(store, "b", queue="mail")
    await store.run(
        lambda dialect, ids, now: admin.pause_queue(
            dialect, ids, now, name="default", actor="ann", reason="deploy"
        )
    )
    assert await claim_ids(store, queues=("default", "mail")) == ["b"]
    aged = await store.claim_aged(claim_request(), ageing_seconds=0.0)
    assert aged.tasks == []
    await store.run(
        lambda dialect, ids, now: admin.resume_queue(dialect, ids, now, name="default", actor="bob")
    )
    assert await claim_ids(store, queues=("default", "mail")) == ["a"]


async def test_the_aged_share_takes_the_longest_waiting(store: Store, clock: VirtualClock) -> None:
    for n, priority in enumerate(["low", "high", "normal", "critical"]):
        await put(store, f"{n}", priority=priority)
        clock.set(clock.now() + 1.0)
    clock.set(clock.now() + 58.0)
    # They have waited 62, 61, 60 and 59 seconds. Critical tasks need no aged claim.
    first = await store.claim_aged(claim_request(2), ageing_seconds=60.0)
    assert [(task.id, task.priority) for task in first.tasks] == [
        ("0", Priority.LOW),
        ("1", Priority.HIGH),
    ]
    assert all(task.status is Status.RUNNING and task.fence == 1 for task in first.tasks)
    more = await store.claim_aged(claim_request(5), ageing_seconds=60.0)
    assert [task.id for task in more.tasks] == ["2"]
    assert (await store.claim_aged(claim_request(5), ageing_seconds=0.0)).tasks == []
    await check_counters(store)


async def test_concurrent_claims_never_share_a_task(shared_bench: Bench) -> None:
    stores = [await shared_bench.open() for _ in range(4)]
    ids = await put_plain(stores[0], 300)

    async def drain(number: int, store: Store) -> list[str]:
        got: list[str] = []
        while tasks := await claim(store, 7, node=f"node-{number}"):
            assert all(task.node == f"node-{number}" for task in tasks)
            got += [task.id for task in tasks]
        return got

    claimed = await asyncio.gather(
        *(drain(number, stores[number % len(stores)]) for number in range(16))
    )
    together = [task_id for got in claimed for task_id in got]
    # A claim may return nothing while other claims hold the last rows.
    together += await drain(99, stores[0])
    assert sorted(together) == sorted(ids)
    assert len([e for e in await read_all(stores[0]) if e.kind == "task.started"]) == 300
    await check_counters(stores[0])


async def test_owned_lists_the_runs_of_a_node(store: Store) -> None:
    await put_plain(store, 3)
    task = await claim_one(store, node="node-a")
    await claim_one(store, node="node-b")
    assert [tuple(row) for row in await store.runs.owned("node-a")] == [
        (task.id, task.fence, task.started_at)
    ]
    assert await store.runs.owned("unknown") == []


async def test_a_claim_takes_tasks_of_its_projects_only(store: Store) -> None:
    for n, project in enumerate(("forge", "other", "default", "forge")):
        await put(store, f"t{n}", project=project)
    request = claim_request(projects=("forge",))
    assert [task.id for task in (await store.claim(request)).tasks] == ["t0", "t3"]
    alone = claim_request(limit=1, expected=1, projects=("forge", "other"))
    assert [task.id for task in (await store.claim(alone)).tasks] == ["t1"]
    assert (await store.claim(alone)).tasks == []
    assert [task.id for task in (await store.claim(claim_request())).tasks] == ["t2"]


async def test_an_aged_claim_takes_tasks_of_its_projects_only(
    store: Store, clock: VirtualClock
) -> None:
    await put(store, "theirs", project="other", priority="low")
    await put(store, "ours", project="forge", priority="low")
    clock.set(clock.now() + 100)
    claimed = await store.claim_aged(claim_request(projects=("forge",)))
    assert [task.id for task in claimed.tasks] == ["ours"]


async def test_a_direct_start_is_of_the_projects_of_its_claim(store: Store) -> None:
    request = claim_request(projects=("forge",))
    inserted, claimed = await store.insert_and_claim([fresh(store, project="other")], request)
    assert inserted[0].created
    assert claimed.tasks == []
