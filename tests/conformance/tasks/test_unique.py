"""Unique windows on every store: one task of a window, from any number of producers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.unique import Unique
from holdfast.store.store import Inserted, Store
from tests.conformance.tasks.helpers import (
    check_counters,
    claim,
    complete,
    finish_all,
    fresh,
    read_all,
)
from tests.statements import execute

STARTED, ENDED = Unique(until="started"), Unique(until="ended")


async def ask(store: Store, unique: Unique | None, **fields: Any) -> Inserted:
    return (await store.insert([fresh(store, unique=unique, **fields)]))[0]


async def test_until_it_has_started(store: Store) -> None:
    first = await ask(store, STARTED)
    again = await ask(store, STARTED)
    assert (again.task_id, again.created, again.status) == (first.task_id, False, first.status)
    await claim(store)
    second = await ask(store, STARTED)
    assert second.created
    assert (await ask(store, STARTED)).task_id == second.task_id
    await check_counters(store)


async def test_until_it_has_ended(store: Store) -> None:
    first = await ask(store, ENDED)
    [task] = await claim(store)
    assert (await ask(store, ENDED)).task_id == first.task_id
    await complete(store, task)
    assert (await ask(store, ENDED)).created


async def test_for_a_period(store: Store, clock: VirtualClock) -> None:
    hour = Unique(period=3_600)
    first = await ask(store, hour)
    await finish_all(store)
    assert (await ask(store, hour)).task_id == first.task_id
    clock.set(clock.now() + 3_599)
    assert not (await ask(store, hour)).created
    clock.set(clock.now() + 2)
    assert (await ask(store, hour)).created
    assert not (await ask(store, hour)).created


async def test_by_chosen_arguments_type_and_project(store: Store) -> None:
    by = Unique(until="ended", by="customer")
    first = await ask(store, by, payload={"customer": 1, "n": 1})
    assert (await ask(store, by, payload={"customer": 1, "n": 2})).task_id == first.task_id
    for other in (
        {"payload": {"customer": 2, "n": 1}},
        {"payload": {"n": 1}},
        {"payload": {"customer": 1}, "type": "other"},
        {"payload": {"customer": 1}, "project": "another"},
    ):
        assert (await ask(store, by, **other)).created, other
    assert (await ask(store, None, payload={"customer": 1, "n": 1})).created


async def test_a_batch_and_concurrent_callers_make_one_task(store: Store) -> None:
    answers = await store.insert([fresh(store, unique=ENDED) for _ in range(3)])
    assert [answer.created for answer in answers] == [True, False, False]
    assert len({answer.task_id for answer in answers}) == 1
    other = {"n": "other"}
    raced = await asyncio.gather(*[ask(store, ENDED, payload=other) for _ in range(8)])
    assert sum(answer.created for answer in raced) == 1
    assert len({answer.task_id for answer in raced}) == 1
    kinds = [event.kind for event in await read_all(store)]
    assert kinds == ["task.enqueued", "task.enqueued"]
    await check_counters(store)


@pytest.mark.parametrize("window", [STARTED, ENDED, Unique(period=864_000)])
async def test_a_window_goes_with_its_task(store: Store, window: Unique) -> None:
    submission = fresh(store, unique=window)
    left = (submission.task.project, submission.task.type, submission.unique_key)
    await store.insert([submission])
    await finish_all(store)
    later = store.now() + 1
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    assert await execute(store, "lock_windows", [left]) == []
    assert (await ask(store, window)).created
