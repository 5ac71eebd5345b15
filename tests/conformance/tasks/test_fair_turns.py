"""Keys of a fair type take turns (core/turns.py), alike on every store."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Instruction, Snooze
from holdfast.core.limit import LimitRule
from holdfast.core.task import Priority, Status, Task
from holdfast.core.turns import WeightChange
from holdfast.store.scripts import turns
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    asked,
    check_counters,
    check_limits,
    claim,
    claim_request,
    complete,
    failing,
    get,
    order,
    put_plain,
    runner_says,
)


async def put_fair(store: Store, keys: str, **fields: Any) -> None:
    """One task of a fair type for each letter, in one batch."""
    given: dict[str, Any] = {"type": "other", "fair": True} | fields
    await store.insert([asked(store, key=key, **given) for key in keys])


def keys_of(tasks: list[Task]) -> str:
    return "".join(sorted(task.fair_key or "" for task in tasks))


async def starts(store: Store, count: int, limit: int = 1) -> str:
    """The keys of the next starts, in claims of `limit` tasks. Each claim is sorted."""
    return "".join([keys_of(await claim(store, limit)) for _ in range(0, count, limit)])


async def weigh(store: Store, key: str, weight: int) -> None:
    await store.upkeep.set_weight(WeightChange("other", key, weight), actor="test")


@pytest.mark.parametrize("limit", [1, 2, 6])
async def test_keys_take_turns_whatever_the_size_of_a_claim(store: Store, limit: int) -> None:
    await put_fair(store, "a" * 8 + "b" * 4 + "c" * 2)
    assert Counter(await starts(store, 6, limit)) == {"a": 2, "b": 2, "c": 2}
    assert Counter(await starts(store, 6, limit)) == {"a": 4, "b": 2}
    assert await starts(store, 6, limit) == "aa"
    await check_counters(store)


async def test_the_tasks_of_a_key_start_in_their_order(store: Store, clock: VirtualClock) -> None:
    for number in range(3):
        await put_fair(store, "aab", metadata={"n": number})
        clock.set(clock.now() + 1)
    tasks = [(await claim(store, 1))[0] for _ in range(9)]
    for key in "ab":
        order_of = [task.metadata["n"] for task in tasks if task.fair_key == key]
        assert order_of == sorted(order_of)


async def test_a_key_with_a_weight_starts_more(store: Store) -> None:
    await weigh(store, "b", 3)
    await put_fair(store, "a" * 4 + "b" * 8 + "c" * 4)
    assert await starts(store, 10) == "abbbcabbbc"
    await weigh(store, "b", 1)
    assert await starts(store, 5) == "abcab"
    assert await store.reads.weights("other", "", 10) == []


async def test_a_new_key_does_not_wait_behind_a_backlog(store: Store, clock: VirtualClock) -> None:
    await put_fair(store, "a" * 50 + "c" * 50)
    await starts(store, 3)
    clock.set(clock.now() + 60)
    await put_fair(store, "b")
    assert "b" in await starts(store, 3)


async def test_an_idle_key_gathers_no_credit(store: Store) -> None:
    await put_fair(store, "a" * 20)
    await starts(store, 9)
    await put_fair(store, "b" * 20)
    assert await starts(store, 8) in ("abababab", "babababa")


async def test_tasks_without_a_key_share_one_turn(store: Store) -> None:
    fair: dict[str, Any] = {"type": "other", "fair": True}
    await store.insert([asked(store, **fair) for _ in range(4)])
    await put_fair(store, "ab" * 2)
    tasks = [(await claim(store, 1))[0] for _ in range(6)]
    assert [task.fair_key for task in tasks] == ["", "a", "b"] * 2


async def test_priorities_win_over_turns(store: Store) -> None:
    await put_fair(store, "aaaa")
    await put_fair(store, "bbb", priority=Priority.LOW)
    await put_fair(store, "aac", priority=Priority.HIGH)
    assert await starts(store, 3) in ("aca", "aac")
    assert await starts(store, 7) == "aaaabbb"


async def test_a_type_keeps_the_place_of_its_oldest_task(store: Store, clock: VirtualClock) -> None:
    await put_fair(store, "aa")
    clock.set(clock.now() + 1)
    await put_plain(store, 1)
    clock.set(clock.now() + 1)
    await put_fair(store, "b")
    await put_plain(store, 1)
    tasks = [(await claim(store, 1))[0] for _ in range(5)]
    assert [task.fair_key or task.type for task in tasks] == ["a", "b", "a", "work", "work"]


async def test_a_delayed_task_has_no_turn_until_it_is_due(
    store: Store, clock: VirtualClock
) -> None:
    await put_fair(store, "aa")
    await put_fair(store, "b", delay_seconds=5.0)
    await put_fair(store, "c")
    assert await starts(store, 2) == "ac"
    clock.set(clock.now() + 6)
    assert await starts(store, 2) == "ab"


async def test_a_snoozed_and_a_failed_task_return_to_the_line_of_their_key(
    store: Store, clock: VirtualClock
) -> None:
    await put_fair(store, "ab" + "a" * 5)
    [first] = await claim(store, 1)
    [second] = await claim(store, 1)
    await runner_says(store, first, failing())
    await runner_says(store, second, Snooze(1.0))
    clock.set(clock.now() + 60)
    assert await starts(store, 3) == "aba"


async def test_projects_and_queues_are_lanes_of_their_own(store: Store) -> None:
    await put_fair(store, "aaab", project="one")
    await put_fair(store, "ab", queue="second")
    tasks = await claim(store, 2, projects=("one",))
    assert keys_of(tasks) == "ab"
    assert keys_of(await claim(store, 2, queues=("second",))) == "ab"
    assert {task.project for task in await claim(store, 5)} == {"one"}


@pytest.mark.parametrize("most", [2, 3])
async def test_delayed_keys_do_not_hide_those_behind_them(
    store: Store, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "KEYS_MAX", most)
    await put_fair(store, "aaabz" + "z" * 3)
    await put_fair(store, "cdefgh", delay_seconds=900.0)
    seen = ""
    for _ in range(40):
        seen += keys_of(await claim(store, 2))
        if len(seen) == 8:
            break
    assert Counter(seen) == {"a": 3, "b": 1, "z": 4}
    assert "z" in seen[:6]


async def test_the_aged_share_is_of_the_lane_not_of_the_oldest_key(
    store: Store, clock: VirtualClock
) -> None:
    await put_fair(store, "aaaa", priority=Priority.LOW)
    clock.set(clock.now() + 100)
    await put_fair(store, "b", priority=Priority.LOW)
    claimed = await store.claim_aged(claim_request(2), 60.0)
    assert keys_of(claimed.tasks) == "ab"


# -- limits ------------------------------------------------------------------------------------------

TWO = LimitRule(max_running=2)


async def test_parked_tasks_of_a_fair_type_are_let_in_by_turns(
    store: Store, clock: VirtualClock
) -> None:
    rules = (("other", TWO),)
    await put_fair(store, "xy", rules=rules)
    running = await claim(store, 5)
    await put_fair(store, "a" * 10, rules=rules)
    clock.set(clock.now() + 1)
    await put_fair(store, "bcb", rules=rules)
    keys = ""
    while running:
        await complete(store, running.pop(0))
        await check_limits(store, "other")
        started = await claim(store, 5)
        keys += keys_of(started)
        running += started
    assert keys == "abcab" + "a" * 8


async def test_a_limit_judges_candidates_in_turn(store: Store, clock: VirtualClock) -> None:
    await put_fair(store, "aaaaa", rules=(("other", TWO),))
    clock.set(clock.now() + 1)
    await put_fair(store, "b", rules=(("other", TWO),))
    assert keys_of(await claim(store, 5)) == "ab"


async def test_a_parked_task_that_is_aborted_lets_another_key_in(store: Store) -> None:
    rules = (("other", TWO),)
    await put_fair(store, "aaaabb", rules=rules)
    running = await claim(store, 5)
    parked = [t for t in (await store.reads.find(limit=50)) if t.status is Status.QUEUED]
    await order(store, parked[0].id, Abort("test"))
    await check_limits(store, "other")
    await store.apply([Instruction(task.id, Abort("test")) for task in running])
    assert len(await claim(store, 5)) == 2
    await check_limits(store, "other")


async def test_limits_of_keys_and_turns_together(store: Store) -> None:
    one = LimitRule(max_running=1)
    for key in "ab":
        await put_fair(store, key * 3, rules=((f"other/{key}", one),))
    assert keys_of(await claim(store, 6)) == "ab"
    await check_limits(store, "other/a", "other/b")


# -- several processes -------------------------------------------------------------------------------


async def test_claims_at_once_keep_the_turns(shared_bench: Bench) -> None:
    store, other = await shared_bench.open(), await shared_bench.open()
    await put_fair(store, "a" * 60 + "b" * 60 + "c" * 60)
    seen: Counter[str] = Counter()
    for _ in range(6):
        both = await asyncio.gather(claim(store, 9), claim(other, 9, node="node-b"))
        seen.update(task.fair_key or "" for tasks in both for task in tasks)
    assert max(seen.values()) - min(seen.values()) <= 1
    assert sum(seen.values()) >= 54


async def test_turns_that_no_claim_uses_are_pruned(store: Store, clock: VirtualClock) -> None:
    await put_fair(store, "ab")
    await starts(store, 2)
    assert await store.upkeep.prune_turns(before=clock.now() - 1, limit=10) == 0
    clock.set(clock.now() + 10)
    assert await store.upkeep.prune_turns(before=clock.now() - 1, limit=10) == 1
    await put_fair(store, "a")
    assert await starts(store, 1) == "a"


async def test_a_task_without_turns_keeps_its_row(store: Store) -> None:
    [task_id] = await put_plain(store, 1)
    assert (await get(store, task_id)).fair_key is None


async def test_the_tasks_of_one_claim_are_in_turn(store: Store) -> None:
    await put_fair(store, "aaabbb")
    assert [task.fair_key for task in await claim(store, 6)] == list("ababab")
