"""An open transaction of another client blocks no transaction of Holdfast.

On PostgreSQL each verb is called while a caller's transaction is open that has enqueued tasks under limits
and children of running tasks. A verb that waited for it would wait for ever; `soon` makes that a failure.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Complete, Instruction, Report
from holdfast.core.decide import Refusal, Transition
from holdfast.core.limit import LimitRule
from holdfast.core.task import Status
from holdfast.store.store import Store, is_held
from tests.conformance.tasks.helpers import (
    after,
    asked,
    check_counters,
    check_limits,
    claim,
    claim_ids,
    claim_one,
    claim_request,
    complete,
    failing,
    fresh,
    get,
    put,
    put_plain,
    status,
)
from tests.integration.postgres.held_support import (
    ONE,
    Caller,
    beat,
    caller,
    soon,
    take_step,
    until_one_waits,
)

__all__ = ["caller"]


# -- limits --------------------------------------------------------------------------------------------


async def test_an_open_enqueue_under_a_limit_holds_nothing_up(store: Store, caller: Caller) -> None:
    limited = {"type": "limited", "rules": (("key", ONE),)}
    await put(store, "first", **limited)
    running = await claim_one(store)
    await store.insert([asked(store, "inside", **limited)], tx=caller.connection)
    await put_plain(store, 3)
    await soon(put(store, "second", **limited))
    assert len(await soon(claim(store))) == 3
    assert await soon(store.backlog.open_gates()) == (0, None)
    assert isinstance(await soon(complete(store, running)), Transition)
    assert await soon(claim_ids(store)) == ["second"]
    await caller.commit()
    assert await claim_ids(store) == []
    assert (await get(store, "inside")).gate == "key", "the claim judges it"
    await check_limits(store, "key")
    await check_counters(store)


async def test_an_open_enqueue_under_a_new_limit_holds_nothing_up(
    store: Store, caller: Caller
) -> None:
    """The row of the limit does not exist yet; both would create it."""
    limited = {"type": "limited", "rules": (("new", ONE),)}
    await store.insert([asked(store, "inside", **limited)], tx=caller.connection)
    await soon(put(store, "outside", **limited))
    running = await soon(claim_one(store))
    assert isinstance(await soon(complete(store, running)), Transition)
    await caller.commit()
    assert await claim_ids(store) == ["inside"]
    await check_limits(store, "new")


async def test_a_limit_locked_by_holdfast_is_skipped_briefly(store: Store, caller: Caller) -> None:
    """Tasks of other types behind it start at once."""
    for n in range(3):
        await put(store, f"held-{n}", type="limited", rules=(("key", LimitRule(max_running=2)),))
    first = await claim_one(store)
    await put(store, "plain", priority="low")
    await caller.connection.execute("SELECT FROM holdfast_limit WHERE name = 'key' FOR UPDATE")
    claimed = await soon(store.claim(claim_request(2)))
    assert [task.id for task in claimed.tasks] == ["plain"]
    assert claimed.blind_seconds > 0.0, "look again soon"
    assert not claimed.look_again, "but not at once"
    inserted = await soon(store.insert([fresh(store, type="limited", rules=(("key", ONE),))]))
    assert (await get(store, inserted[0].task_id)).gate is None
    assert await soon(store.backlog.open_gates()) == (0, None)
    await caller.rollback()
    assert await claim_ids(store) == ["held-1"]
    assert isinstance(await complete(store, first), Transition)
    await check_limits(store, "key")


async def test_the_same_key_in_an_open_transaction_holds_no_limit_and_no_parent(
    store: Store, caller: Caller
) -> None:
    """An enqueue with that key waits for the answer, and holds nothing meanwhile."""
    await put(store, "parent")
    parent = await claim_one(store)
    rules = (("key", ONE),)
    keyed = {"type": "limited", "rules": rules, "idempotency_key": "k"}
    await put(store, "runs", type="limited", rules=rules)
    running = await claim_one(store)
    await store.insert([asked(store, "inside", **keyed)], tx=caller.connection)
    same = fresh(store, "outside", **keyed, depends_on=after("parent"))
    waiting = asyncio.create_task(store.insert([same]))
    await until_one_waits(caller.connection)
    assert await beat(store, parent, running) == set()
    await soon(put(store, "next", type="limited", rules=rules))
    assert isinstance(await soon(complete(store, running)), Transition)
    assert isinstance(await soon(complete(store, parent)), Transition)
    await caller.rollback()
    assert (await soon(waiting))[0].created
    assert await claim_ids(store) == ["next"]
    assert await status(store, "outside") is Status.QUEUED, "its parent had ended"
    await check_limits(store, "key")


# -- steps of a handler in its own transaction -----------------------------------------------------------


async def test_a_step_in_an_open_transaction_lets_its_task_be_renewed(
    store: Store, clock: VirtualClock, caller: Caller
) -> None:
    """No node claims the task meanwhile, and nothing else waits for it."""
    await put(store, "stepping")
    await put(store, "other")
    running = {task.id: task for task in await claim(store)}
    stepping = running["stepping"]
    await take_step(store, stepping, caller)
    clock.set(clock.now() + 6.0)
    assert await beat(store, *running.values()) == set()
    assert (await get(store, "stepping")).lease_until == clock.now() + 9.0
    clock.set(clock.now() + 100.0)
    swept = await soon(store.sweep())
    assert [each.after.id for each in swept.expired if isinstance(each, Transition)] == ["other"]
    assert (await soon(store.sweep())).next_at == clock.now() + 1.0, "come back to it"
    ended = Instruction("stepping", failing(final=True), fence=stepping.fence)
    last = await claim_one(store)
    done = await soon(
        store.finish(
            [(stepping, ended), (last, Instruction(last.id, Complete("1"), fence=last.fence))]
        )
    )
    assert is_held(done[0])
    assert isinstance(done[1], Transition)
    await caller.commit()
    assert [
        each.after.id for each in (await store.sweep()).expired if isinstance(each, Transition)
    ] == ["stepping"]


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_sweep_finds_ended_leases_behind_more_held_ones_than_it_takes(
    store: Store, clock: VirtualClock, caller: Caller, limit: int
) -> None:
    await put_plain(store, 7)
    held = await claim(store, 5)
    clock.set(clock.now() + 1.0)
    free = await claim(store, 2)
    ids = [task.id for task in held]
    await caller.connection.execute(
        "SELECT FROM holdfast_task WHERE id = ANY($1) FOR KEY SHARE", ids
    )
    clock.set(clock.now() + 100.0)
    taken: list[str] = []
    for _ in range(3):
        swept = await soon(store.sweep(limit))
        taken += [each.after.id for each in swept.expired if isinstance(each, Transition)]
        assert swept.next_at == clock.now() + 1.0, "come back to those that are held"
    assert sorted(taken) == sorted(task.id for task in free)
    await caller.rollback()
    while (swept := await soon(store.sweep(limit))).expired:
        taken += [each.after.id for each in swept.expired if isinstance(each, Transition)]
    assert sorted(taken) == sorted(task.id for task in [*held, *free])


async def test_a_held_row_is_refused_only_where_it_is_not_waited_for(
    store: Store, caller: Caller
) -> None:
    await put(store, "a")
    await caller.connection.execute("SELECT FROM holdfast_task WHERE id = 'a' FOR UPDATE")
    orders = [Instruction("a", Report("1"), fence=1), Instruction("nowhere", Report("1"), fence=1)]
    held, missing = await soon(store.apply(orders, wait=False))
    assert is_held(held)
    assert isinstance(missing, Refusal)
    assert missing.code == "not-found"
