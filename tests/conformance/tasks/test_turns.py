"""Turns at a limit, and the time of the next claim: every task that may run has a claim scheduled."""

from __future__ import annotations

import asyncpg
from hypothesis import given, strategies as st

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Complete, Edit, Instruction
from holdfast.core.limit import LET_IN_SECONDS, Limit, LimitRule, next_look, opens_at, permits, take
from holdfast.store.scripts.insert import insert
from holdfast.store.store import Store
from tests.backends import PostgresBench
from tests.conformance.tasks.helpers import (
    asked,
    check_limits,
    claim,
    claim_ids,
    claim_one,
    claim_request,
    complete,
    failing,
    get,
    put,
    runner_says,
)

ONE = LimitRule(max_running=1)
SLOW = LimitRule(rate_count=1, rate_seconds=10.0)


async def put_limited(store: Store, task_id: str, rule: LimitRule, **fields: object) -> None:
    await put(store, task_id, type="limited", rules=(("key", rule),), **fields)


async def put_unjudged(store: Store, task_id: str, rule: LimitRule) -> None:
    """Inserts a task without checking its limit, as in a caller's transaction."""
    submission = asked(store, task_id, type="limited", rules=(("key", rule),))
    await store.run(
        lambda dialect, ids, now: insert(
            [submission], now=now, record_id=ids.record(now), recorder=dialect, in_tx=True
        )
    )
    assert (await get(store, task_id)).gate is None


async def opening(store: Store) -> float | None:
    """The time for which an idle worker waits."""
    ahead = await store.backlog.next_due(["default"])
    assert ahead.opens_at == (await store.backlog.first_due(["default"])).opens_at
    return ahead.opens_at


# -- when to look ----------------------------------------------------------------------------------------


async def test_a_task_that_the_insert_parks_says_when_it_may_start(
    store: Store, clock: VirtualClock
) -> None:
    await put_limited(store, "first", SLOW)
    started_at = clock.now()
    await claim_one(store)
    assert await opening(store) is None, "nothing waits at the limit"
    clock.set(started_at + 3.0)
    await put_limited(store, "second", SLOW)
    assert (await get(store, "second")).gate == "key"
    assert await opening(store) == started_at + 10.0
    clock.set(started_at + 10.0)
    assert (await store.backlog.open_gates())[0] == 1
    assert await claim_ids(store) == ["second"]
    assert await opening(store) is None
    await check_limits(store, "key")


async def test_a_full_limit_opens_with_the_end_of_a_run_not_with_time(store: Store) -> None:
    for n in range(3):
        await put_limited(store, f"{n}", ONE)
    running = await claim_one(store)
    assert await claim(store) == []
    assert await opening(store) is None
    await complete(store, running)
    assert await claim_ids(store) == ["1"]
    assert await opening(store) is None


async def test_an_unparked_task_that_does_not_start_blocks_the_next_only_briefly(
    store: Store, clock: VirtualClock
) -> None:
    """This node does not serve the queue of the unparked task, so the permit stays unused."""
    await put_limited(store, "first", ONE)
    running = await claim_one(store)
    await put_limited(store, "elsewhere", ONE, queue="elsewhere")
    clock.set(clock.now() + 0.001)
    await put_limited(store, "here", ONE)
    await complete(store, running)
    assert await claim_ids(store) == []
    at = await opening(store)
    assert at == clock.now() + LET_IN_SECONDS
    clock.set(at)
    assert (await store.backlog.open_gates())[0] == 1
    assert await claim_ids(store) == ["here"]
    await check_limits(store, "key")


async def test_a_looser_rule_unparks_waiting_tasks(store: Store, clock: VirtualClock) -> None:
    for n in range(3):
        await put_limited(store, f"{n}", ONE)
    await claim(store)
    assert await opening(store) is None
    clock.set(clock.now() + 1.0)
    await put_limited(store, "3", LimitRule(max_running=3))
    at = await opening(store)
    assert at is not None
    clock.set(at)
    await store.backlog.open_gates()
    assert await claim_ids(store) == ["1", "2"]
    await check_limits(store, "key")


async def test_new_tasks_do_not_delay_the_next_claim(store: Store, clock: VirtualClock) -> None:
    await put_limited(store, "first", ONE)
    running = await claim_one(store)
    await put_limited(store, "elsewhere", ONE, queue="elsewhere")
    await put_limited(store, "here", ONE)
    await complete(store, running)
    at = await opening(store)
    assert at is not None
    for n in range(3):
        clock.set(clock.now() + 0.1)
        await put_limited(store, f"late-{n}", ONE)
        assert await opening(store) == at


# -- whose turn it is ------------------------------------------------------------------------------------


async def test_ends_and_aborts_in_one_batch_unpark_the_next_task(store: Store) -> None:
    """Tasks that the same transaction removes from the line do not count as unparked."""
    for n in range(5):
        await put_limited(store, f"{n}", ONE)
    running = await claim_one(store)
    assert await claim(store) == []
    done = Instruction(running.id, Complete("1"), fence=running.fence)
    await store.apply([done, Instruction("1", Abort("ann")), Instruction("2", Edit("ann", "2"))])
    await check_limits(store, "key")
    assert await claim_ids(store) == ["3"], "the edited one is held by the edit itself"


async def test_a_later_arrival_does_not_take_the_turn_of_a_parked_one(
    store: Store, clock: VirtualClock
) -> None:
    await put_limited(store, "first", SLOW)
    await put_limited(store, "parked", SLOW)
    await claim(store)
    clock.set(clock.now() + 10.0)
    await put_unjudged(store, "late", SLOW)
    claimed = await store.claim(claim_request(1))
    assert (claimed.tasks, claimed.parked, claimed.look_again) == ([], 1, True)
    assert await claim_ids(store, 1) == ["parked"]
    assert (await get(store, "late")).gate == "key"
    await check_limits(store, "key")


async def test_a_retry_does_not_take_the_turn_of_a_parked_one(
    store: Store, clock: VirtualClock
) -> None:
    await put_limited(store, "again", SLOW)
    running = await claim_one(store)
    clock.set(clock.now() + 1.0)
    await put_limited(store, "parked", SLOW)
    clock.set(clock.now() + 1.0)
    await runner_says(store, running, failing())
    clock.set(clock.now() + 60.0)
    assert await claim_ids(store, 1) == []
    assert await claim_ids(store, 1) == ["parked"]
    await check_limits(store, "key")


async def test_a_more_urgent_arrival_goes_first(store: Store, clock: VirtualClock) -> None:
    await put_limited(store, "first", ONE)
    running = await claim_one(store)
    await put_limited(store, "parked", ONE, priority="low")
    await put_limited(store, "urgent", ONE, priority="critical")
    await complete(store, running)
    assert await claim_ids(store) == ["urgent"]
    await check_limits(store, "key")


async def test_a_parked_task_that_is_held_is_looked_for_again(
    clock: VirtualClock, pg_dsn: str
) -> None:
    """Another transaction holds the row when the permit comes back."""
    bench = PostgresBench(clock, pg_dsn)
    store = await bench.open()
    await put_limited(store, "first", ONE)
    running = await claim_one(store)
    await put_limited(store, "parked", ONE)
    connection = await asyncpg.connect(pg_dsn)
    async with connection.transaction():
        await connection.execute("SELECT FROM holdfast_task WHERE id = 'parked' FOR UPDATE")
        await complete(store, running)
    await connection.close()
    assert await claim_ids(store) == []
    at = await opening(store)
    assert at is not None
    assert at - clock.now() < 0.1
    clock.set(at)
    assert (await store.backlog.open_gates())[0] == 1
    assert await claim_ids(store) == ["parked"]
    await check_limits(store, "key")
    await bench.close()


async def test_every_task_gets_its_turn_however_it_was_enqueued(
    store: Store, clock: VirtualClock
) -> None:
    """A stream of tasks whose limit was not checked does not starve the parked ones."""
    await put_limited(store, "first", SLOW)
    await claim(store)
    for n in range(5):
        await put_limited(store, f"parked-{n}", SLOW)
        clock.set(clock.now() + 0.001)
    started: list[str] = []
    for n in range(5):
        clock.set(clock.now() + 10.0)
        await put_unjudged(store, f"late-{n}", SLOW)
        for _ in range(3):
            started += await claim_ids(store, 1)
    assert started == [f"parked-{n}" for n in range(5)]
    await check_limits(store, "key")


# -- the rule itself -------------------------------------------------------------------------------------


@given(
    max_running=st.none() | st.integers(1, 3),
    rate_count=st.none() | st.integers(1, 5),
    burst=st.integers(1, 3),
    running=st.integers(0, 4),
    starts=st.integers(0, 6),
    parked=st.integers(0, 3),
    waits=st.floats(0, 5),
    look_in=st.none() | st.floats(-5, 5),
)
def test_a_parked_task_that_may_start_has_a_claim_scheduled(
    max_running: int | None,
    rate_count: int | None,
    burst: int,
    running: int,
    starts: int,
    parked: int,
    waits: float,
    look_in: float | None,
) -> None:
    started_at = 1_800_000_000.0
    now = started_at + waits
    limit = Limit("key", LimitRule(max_running, rate_count, 1.0, burst))
    for _ in range(starts):
        limit = take(limit, started_at)
    look_at = None if look_in is None else now + look_in
    limit = Limit("key", limit.rule, running, parked, limit.full_until, look_at)
    at = next_look(limit, now)
    if not parked:
        assert at is None
    elif permits(limit, now) >= 1:
        assert at is not None
        assert at <= now + LET_IN_SECONDS
    else:
        assert at == opens_at(limit, now)
        assert at is None or at > now
    if at is not None and at > now + LET_IN_SECONDS:
        assert permits(limit, now) < 1
        assert permits(limit, at) >= 1
