"""Queues, types, nodes, schedules and dead letters of a store."""

from __future__ import annotations

import asyncio

from holdfast.clock import VirtualClock
from holdfast.core.schedule import Schedule
from holdfast.store.scripts import admin, schedules
from holdfast.store.scripts.insert import Inserted
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    all_tasks,
    asked,
    check_counters,
    claim,
    claim_one,
    failing,
    put,
    put_plain,
    read_all,
    runner_says,
)
from tests.statements import execute, query


async def pause(store: Store, name: str, reason: str = "") -> None:
    await store.run(
        lambda dialect, ids, now: admin.pause_queue(
            dialect, ids, now, name=name, actor="ann", reason=reason
        )
    )


async def resume(store: Store, name: str) -> None:
    await store.run(
        lambda dialect, ids, now: admin.resume_queue(dialect, ids, now, name=name, actor="bob")
    )


async def test_pausing_a_queue_records_actor_and_reason(store: Store, clock: VirtualClock) -> None:
    await pause(store, "mail", "deploy")
    rows = [tuple(row) for row in await query(store, "queues")]
    assert rows == [("mail", clock.now(), "ann", "deploy", 1)]
    await resume(store, "mail")
    assert [tuple(row) for row in await query(store, "queues")] == [("mail", None, None, None, 2)]
    events = await read_all(store)
    assert [(event.kind, event.data) for event in events] == [
        ("queue.paused", {"queue": "mail", "actor": "ann", "reason": "deploy"}),
        ("queue.resumed", {"queue": "mail", "actor": "bob", "reason": ""}),
    ]


async def test_types_are_known_to_all(store: Store) -> None:
    rows: list[tuple[object, ...]] = [("a", "default", "{}"), ("b", "mail", "{}")]
    await execute(store, "register_types", rows, now=1.0, actor="n1", project="")
    await execute(
        store, "register_types", [("b", "other", '{"x":1}')], now=2.0, actor="n2", project=""
    )
    assert [tuple(row) for row in await query(store, "types")] == [
        ("a", "default", "{}"),
        ("b", "other", '{"x":1}'),
    ]


async def test_nodes_register_send_heartbeats_and_leave(store: Store) -> None:
    await execute(store, "join_node", id="n1", now=1.0, info_json="{}")
    await execute(store, "beat_node", id="n1", now=5.0, info_json='{"busy":1}', gates=[])
    await execute(store, "join_node", id="n2", now=2.0, info_json="{}")
    assert [tuple(row) for row in await query(store, "nodes")] == [
        ("n1", 1.0, 5.0, '{"busy":1}', "live"),
        ("n2", 2.0, 2.0, "{}", "live"),
    ]
    await execute(store, "prune_nodes", before=3.0)
    assert [row[0] for row in await query(store, "nodes")] == ["n1"]
    await execute(store, "forget_node", id="n1")
    assert await query(store, "nodes") == []


async def put_schedule(store: Store, next_at: float, spec: str = "@every 60") -> Schedule:
    await execute(
        store,
        "put_schedule",
        name="tick",
        type="work",
        queue="default",
        spec=spec,
        timezone="UTC",
        payload_json="{}",
        priority=2,
        next_at=next_at,
        owner=None,
        announced_at=None,
        project="default",
    )
    return Schedule(*(await query(store, "schedules"))[0])


async def fire(store: Store, schedule: Schedule) -> Inserted | None:
    submission = asked(store)
    return await store.run(
        lambda dialect, ids, now: schedules.fire(
            dialect, ids, now, schedule=schedule, submission=submission
        )
    )


async def test_a_schedule_fires_once_however_many_try(
    shared_bench: Bench, clock: VirtualClock
) -> None:
    stores = [await shared_bench.open() for _ in range(4)]
    schedule = await put_schedule(stores[0], clock.now())
    fired = await asyncio.gather(*(fire(store, schedule) for store in stores * 3))
    assert len([answer for answer in fired if answer is not None]) == 1
    assert len(await all_tasks(stores[0])) == 1
    after = Schedule(*(await query(stores[0], "schedules"))[0])
    assert (after.next_at, after.fired_at) == (clock.now() + 60.0, clock.now())
    assert await fire(stores[1], schedule) is None
    assert await fire(stores[1], after) is not None


async def test_an_unchanged_schedule_keeps_its_time(store: Store, clock: VirtualClock) -> None:
    first = await put_schedule(store, clock.now() + 10)
    assert (await put_schedule(store, clock.now() + 99)).next_at == first.next_at
    changed = await put_schedule(store, clock.now() + 5, spec="@every 5")
    assert changed.next_at == clock.now() + 5
    await execute(store, "drop_schedule", name="tick")
    assert await query(store, "schedules") == []


async def test_dead_letters_by_group_and_filter(store: Store, clock: VirtualClock) -> None:
    await put_plain(store, 3)
    for n, task in enumerate(await claim(store, 3)):
        clock.set(clock.now() + 1)
        await runner_says(store, task, failing("a" if n else "b", final=True))
    await put(store, "other", type="other", queue="mail")
    other = await claim_one(store, queues=("mail",))
    await runner_says(store, other, failing("a", final=True))
    groups = [tuple(row)[:4] for row in await query(store, "dead_groups", limit=10)]
    assert [(g[0], g[1]) for g in groups] == [("print a", 3), ("print b", 1)]

    async def dead(**filters: object) -> list[str]:
        fields = {"fingerprint": None, "type": None, "queue": None, "before": None} | filters
        tasks = await query(store, "find_dead", **{"limit": 10, "skip": 0, **fields})
        return [task.id for task in tasks]

    assert len(await dead()) == 4
    assert await dead(type="other") == ["other"] == await dead(queue="mail")
    assert len(await dead(fingerprint="print a")) == 3
    assert len(await dead(before=clock.now() - 1)) == 2
    assert len(await dead(limit=2, skip=3)) == 1


async def test_counters_of_removed_queues_are_removed(
    bench: Bench, store: Store, clock: VirtualClock
) -> None:
    for n in range(5):
        await put(store, f"{n}", queue=f"queue-{n}")
    await put(store, "stays")
    for n in range(5):
        await runner_says(
            store, await claim_one(store, queues=(f"queue-{n}",)), failing(final=True)
        )
    later = clock.now() + 1.0
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    await check_counters(store)
    assert len(await bench.sql("SELECT queue FROM holdfast_counter")) > 1
    assert len(await execute(store, "prune_counters", limit=3)) == 3
    while await execute(store, "prune_counters", limit=3):
        pass
    assert [row[0] for row in await bench.sql("SELECT queue FROM holdfast_counter")] == ["default"]
    await check_counters(store)
    await put(store, "back", queue="queue-0")
    await check_counters(store)


async def test_a_type_is_forgotten_when_nothing_names_it(store: Store, clock: VirtualClock) -> None:
    rows = [(name, "default", "{}") for name in ("work", "other", "live", "old", "new")]
    await execute(
        store, "register_types", rows[:-1], now=clock.now() - 100.0, actor="n", project=""
    )
    await execute(store, "register_types", rows[-1:], now=clock.now(), actor="n", project="")
    await put(store, "waits", type="other")
    await store.feed.counters()
    await put_schedule(store, clock.now())  # of type "work"
    await execute(store, "join_node", id="n", now=clock.now(), info_json='{"types": ["live"]}')
    await execute(store, "prune_types", before=clock.now() - 50.0)
    assert [row[0] for row in await query(store, "types")] == ["live", "new", "other", "work"]
