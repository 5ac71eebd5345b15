"""Limits are exact, cost a waiting task no attempt, and do not delay other tasks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Edit, Pause, Release, Resume, Snooze
from holdfast.core.limit import LimitRule
from holdfast.core.task import Status, Task
from holdfast.store.store import Store
from tests.backends import Bench, PostgresBench
from tests.conformance.tasks.helpers import (
    after,
    all_tasks,
    asked,
    check_counters,
    check_limits,
    claim,
    claim_ids,
    claim_one,
    claim_request,
    code,
    complete,
    failing,
    get,
    order,
    put,
    read_all,
    runner_says,
)
from tests.statements import execute, query

ONE = LimitRule(max_running=1)
TWO = LimitRule(max_running=2)


async def put_limited(
    store: Store, task_id: str, name: str, rule: LimitRule, **fields: object
) -> str:
    return await put(store, task_id, type="limited", rules=((name, rule),), **fields)


async def test_never_more_at_once_than_allowed(store: Store, clock: VirtualClock) -> None:
    for n in range(6):
        await put_limited(store, f"{n}", "key", TWO)
        clock.set(clock.now() + 0.001)
    running = await claim(store, 10)
    assert [task.id for task in running] == ["0", "1"]
    assert await claim(store, 10) == []
    await check_limits(store, "key")
    await complete(store, running[0])
    await check_limits(store, "key")
    assert await claim_ids(store, 10) == ["2"]
    assert await claim(store, 10) == []
    await check_limits(store, "key")
    await check_counters(store)


async def test_everything_under_a_limit_gets_its_turn(store: Store, clock: VirtualClock) -> None:
    for n in range(9):
        await put_limited(store, f"{n}", "key", TWO)
        clock.set(clock.now() + 0.001)
    done: list[str] = []
    while tasks := await claim(store, 10):
        assert len(tasks) <= 2
        for task in tasks:
            assert task.attempts == 1, "waiting at a limit costs no attempt"
            await complete(store, task)
            done.append(task.id)
            await check_limits(store, "key")
    assert done == [f"{n}" for n in range(9)]
    events = [e.kind for e in await read_all(store)]
    assert len(events) == 27, "waiting at a limit is no event"


async def test_other_keys_are_never_delayed(store: Store, clock: VirtualClock) -> None:
    for n in range(30):
        await put_limited(store, f"a{n:02}", "a", ONE)
        clock.set(clock.now() + 0.001)
    await put_limited(store, "b", "b", ONE)
    clock.set(clock.now() + 0.001)
    await put(store, "free")
    claimed: list[str] = []
    for _ in range(5):
        claimed += await claim_ids(store, 10)
    assert claimed == ["a00", "b", "free"]
    await check_limits(store, "a", "b")


async def test_a_claim_reports_that_more_may_follow_parked_tasks(store: Store) -> None:
    """A claim that parks tasks returns fewer than requested, although more may be ready."""
    for n in range(5):
        await put_limited(store, f"a{n}", "a", ONE)
    await put(store, "free", priority="low")
    first = await store.claim(claim_request(3))
    assert [task.id for task in first.tasks] == ["a0"]
    assert first.parked == 2
    second = await store.claim(claim_request(3))
    assert [task.id for task in second.tasks] == ["free"]
    assert second.parked == 2
    assert (await store.claim(claim_request(3))).parked == 0


async def test_a_claim_reports_that_other_claims_came_first(
    clock: VirtualClock, pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL tasks with limits are read first and claimed later. If another node claims them in
    between, more tasks may be ready."""
    bench = PostgresBench(clock, pg_dsn)
    mine, others = await bench.open(), await bench.open()
    for n in range(6):
        await put_limited(mine, f"{n}", "key", LimitRule(max_running=4))
    write = mine._driver.write

    async def late(script: Any, **options: Any) -> Any:
        monkeypatch.undo()
        assert len(await claim(others, 3)) == 3
        return await write(script, **options)

    monkeypatch.setattr(mine._driver, "write", late)
    first = await mine.claim(claim_request(3))
    assert (first.tasks, first.parked, first.look_again) == ([], 0, True)
    second = await mine.claim(claim_request(3))
    assert (len(second.tasks), second.parked, second.look_again) == (1, 2, False)
    await bench.close()


async def test_a_new_task_waits_behind_those_that_wait(store: Store) -> None:
    for n in range(3):
        await put_limited(store, f"{n}", "key", ONE)
    first = (await claim(store, 10))[0]
    await put_limited(store, "last", "key", ONE)
    assert (await get(store, "last")).gate == "key"
    await complete(store, first)
    assert await claim_ids(store, 10) == ["1"]
    await check_limits(store, "key")


async def leave(store: Store, clock: VirtualClock, task: Task, how: str) -> None:
    match how:
        case "fail":
            await runner_says(store, task, failing(final=True))
        case "retry":
            await runner_says(store, task, failing())
        case "snooze":
            await runner_says(store, task, Snooze(100.0))
        case "release":
            await runner_says(store, task, Release("stop"))
            await order(store, task.id, Abort("ann"))
        case "abort":
            await order(store, task.id, Abort("ann"))
        case "pause":
            await order(store, task.id, Pause("ann"))
        case _:
            clock.set(clock.now() + 10.0)
            await store.sweep()
            await order(store, task.id, Abort("ann"))


@pytest.mark.parametrize("how", ["fail", "retry", "snooze", "release", "abort", "pause", "expire"])
async def test_every_end_of_a_run_returns_its_permit(
    store: Store, clock: VirtualClock, how: str
) -> None:
    await put_limited(store, "first", "key", ONE)
    clock.set(clock.now() + 0.001)
    await put_limited(store, "second", "key", ONE)
    task = (await claim(store, 10))[0]
    assert task.id == "first"
    await leave(store, clock, task, how)
    assert await claim_ids(store, 10) == ["second"]
    await check_limits(store, "key")
    await check_counters(store)


async def test_an_abort_of_a_parked_task_leaves_the_count_right(store: Store) -> None:
    for n in range(3):
        await put_limited(store, f"{n}", "key", ONE)
    running = (await claim(store, 10))[0]
    await order(store, "1", Abort("ann"))
    await check_limits(store, "key")
    await order(store, "2", Edit("ann", "5"))
    await check_limits(store, "key")
    await complete(store, running)
    assert await claim_ids(store, 10) == ["2"]
    await check_limits(store, "key")


async def test_a_resumed_task_takes_its_place_again(store: Store) -> None:
    await put_limited(store, "a", "key", ONE)
    await claim_one(store)
    await order(store, "a", Pause("ann"))
    await order(store, "a", Resume("ann"))
    await claim_one(store)
    await check_limits(store, "key")


async def test_a_rate_starts_tasks_one_by_one(store: Store, clock: VirtualClock) -> None:
    rule = LimitRule(rate_count=2, rate_seconds=1.0)
    for n in range(4):
        await put_limited(store, f"{n}", "limited", rule)
    started_at = clock.now()
    starts: list[float] = []
    for _ in range(100):
        claimed = await store.claim(claim_request(10))
        starts += [clock.now() - started_at for _ in claimed.tasks]
        for task in claimed.tasks:
            assert task.attempts == 1
            await complete(store, task)
        if len(starts) == 4:
            break
        _, opens_at = await store.backlog.open_gates()
        assert opens_at is not None
        clock.set(max(opens_at, clock.now() + 1e-6))
        await store.backlog.open_gates()
    assert starts == pytest.approx([0.0, 0.5, 1.0, 1.5], abs=1e-3)
    await check_limits(store, "limited")


async def test_a_closed_limit_reports_when_it_opens(store: Store, clock: VirtualClock) -> None:
    rule = LimitRule(rate_count=1, rate_seconds=10.0)
    await put_limited(store, "0", "limited", rule)
    await put_limited(store, "1", "limited", rule)
    claimed = await store.claim(claim_request(10))
    assert [task.id for task in claimed.tasks] == ["0"]
    assert claimed.opens_at == clock.now() + 10.0
    assert await store.backlog.open_gates() == (0, clock.now() + 10.0)
    clock.set(clock.now() + 10.0)
    opened, _ = await store.backlog.open_gates()
    assert opened == 1
    assert await claim_ids(store, 10) == ["1"]


async def test_a_burst_starts_together(store: Store) -> None:
    rule = LimitRule(rate_count=1, rate_seconds=10.0, burst=3)
    for n in range(5):
        await put_limited(store, f"{n}", "limited", rule)
    assert len(await claim(store, 10)) == 3
    await check_limits(store, "limited")


async def test_both_limits_of_a_task_count(store: Store) -> None:
    rules = (("limited", LimitRule(max_running=3)), ("limited/k", ONE))
    for n in range(3):
        await put(store, f"k{n}", type="limited", rules=rules)
    for n in range(4):
        await put(store, f"o{n}", type="limited", rules=(("limited", LimitRule(max_running=3)),))
    claimed: list[str] = []
    for _ in range(4):
        claimed += await claim_ids(store, 10)
    assert claimed == ["k0", "o0", "o1"]
    await check_limits(store, "limited", "limited/k")
    await complete(store, await get(store, "o0"))
    claimed = []
    for _ in range(4):
        claimed += await claim_ids(store, 10)
        await check_limits(store, "limited", "limited/k")
    assert len(claimed) == 1


async def test_the_aged_share_keeps_limits_too(store: Store, clock: VirtualClock) -> None:
    for n in range(3):
        await put_limited(store, f"{n}", "key", ONE)
    clock.set(clock.now() + 100.0)
    aged = await store.claim_aged(claim_request(10), ageing_seconds=60.0)
    assert [task.id for task in aged.tasks] == ["0"]
    await check_limits(store, "key")


async def test_a_changed_rule_holds_from_the_next_enqueue_on(store: Store) -> None:
    for n in range(3):
        await put_limited(store, f"{n}", "key", ONE)
    assert len(await claim(store, 10)) == 1
    await put_limited(store, "3", "key", LimitRule(max_running=3))
    await complete(store, await get(store, "0"))
    assert len(await claim(store, 10)) == 3
    await check_limits(store, "key")


async def test_a_limit_outlives_its_pruning(store: Store, clock: VirtualClock) -> None:
    """An unused limit is pruned. Tasks that name it create it again when they start."""
    for n in range(4):
        await put_limited(store, f"{n}", "key", ONE, delay_seconds=7200.0)
    await execute(store, "prune_limits", before=clock.now(), limit=100)
    clock.set(clock.now() + 7200.0)
    assert len(await claim(store, 10)) == 1
    await check_limits(store, "key")
    assert len(await query(store, "get_limits", names=["key"])) == 1


async def test_a_limit_in_use_is_not_forgotten(store: Store, clock: VirtualClock) -> None:
    await put_limited(store, "a", "held", ONE)
    await put_limited(store, "b", "idle", ONE)
    await complete(store, (await claim(store, 10, types=("limited",)))[1])
    await execute(store, "prune_limits", before=clock.now() + 1, limit=100)
    rows = await query(store, "get_limits", names=["held", "idle"])
    assert [row[0] for row in rows] == ["held"]


async def test_a_limited_task_that_is_blocked_counts_once_it_runs(store: Store) -> None:
    await put(store, "p")
    await put_limited(store, "c", "key", ONE, depends_on=after("p"))
    await check_limits(store, "key")
    await complete(store, await claim_one(store))
    assert await claim_ids(store) == ["c"]
    await check_limits(store, "key")


async def test_a_limit_holds_across_stores(shared_bench: Bench) -> None:
    stores = [await shared_bench.open() for _ in range(4)]
    await stores[0].insert(
        [asked(stores[0], type="limited", rules=(("key", TWO),)) for _ in range(40)]
    )
    running = 0
    most = 0

    async def work(store: Store) -> int:
        nonlocal running, most
        done = 0
        for _ in range(400):
            for task in await claim(store, 3, types=("limited",)):
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1
                while code(await complete(store, task)) == "held":
                    pass
                done += 1
            if (await store.backlog.next_due(["default"])).opens_at is not None:
                # The task was locked when a permit came back. The claim that is due then unparks it.
                shared_bench.clock.set(shared_bench.clock.now() + 0.1)
                await store.backlog.open_gates()
            if not await store.reads.find(status=Status.QUEUED, limit=1):
                break
        return done

    done = await asyncio.gather(*(work(store) for store in stores))
    assert sum(done) == 40
    assert most <= 2
    assert {task.status for task in await all_tasks(stores[0])} == {Status.COMPLETED}
    await check_limits(stores[0], "key")
    await check_counters(stores[0])
