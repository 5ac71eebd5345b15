"""Groups of tasks that differ only in id and payload, which a store may write in parts: whole or not at all,
with the rows and the events that the core decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from holdfast.core import decide
from holdfast.core.alike import FIRST_PART, AlikeTasks
from holdfast.core.event import NEW_EVENTS
from holdfast.core.task import Status
from holdfast.errors import InvalidInput
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import (
    all_tasks,
    check_counters,
    claim_request,
    fresh,
    put,
    read_all,
)
from tests.conformance.tasks.test_fast_paths import STRANGE, born, recorded

LARGE = FIRST_PART + 30


def numbers(start: int, stop: int) -> list[str]:
    return [f'{{"n":{n}}}' for n in range(start, stop)]


def alike(
    store: Store, count: int, texts: Callable[[int, int], list[str]] = numbers, **fields: Any
) -> AlikeTasks:
    return AlikeTasks(fresh(store, **fields), count, partial(store.ids.tasks, store.now()), texts)


@pytest.mark.parametrize(
    "fields",
    [{}, STRANGE, {"delay_seconds": 5.0}, {"tags": ("b", "a")}],
    ids=["few", "strange", "delayed", "tagged"],
)
@pytest.mark.parametrize("count", [1, 3, LARGE])
async def test_they_are_written_as_the_core_decides(
    store: Store, count: int, fields: dict[str, Any]
) -> None:
    group = alike(store, count, **fields)
    inserted = await store.insert(group)
    assert [answer.task_id for answer in inserted] == group.ids()
    assert {(answer.status, answer.created) for answer in inserted} == {(Status.QUEUED, True)}
    now = store.now()
    rows = [born(submission, now) for submission in group]
    assert {task.id: task for task in await all_tasks(store)} == {row.id: row for row in rows}
    for row in (rows[0], rows[-1]):
        decided = NEW_EVENTS.decode(msgspec.json.encode([decide.enqueued(row, now)]))
        assert await recorded(store, row.id) == decided
    events = await read_all(store)
    assert [(e.kind, e.task_id) for e in events] == [("task.enqueued", row.id) for row in rows]
    await check_counters(store)


async def test_a_large_group_is_claimed_in_its_order(store: Store) -> None:
    group = alike(store, LARGE)
    await store.insert(group)
    claimed: list[str] = []
    while len(claimed) < LARGE:
        found = await store.claim(claim_request(100))
        claimed += [task.id for task in found.tasks]
    assert claimed == group.ids()


async def test_a_task_that_exists_is_answered_and_the_others_are_new(store: Store) -> None:
    group = alike(store, LARGE)
    group.make()
    first, last = group[0], group[LARGE - 1]
    await store.insert([first])
    await store.insert([last])
    answers = await store.insert(group)
    assert [n for n, answer in enumerate(answers) if not answer.created] == [0, LARGE - 1]
    assert len(await all_tasks(store)) == LARGE
    assert len(await read_all(store)) == LARGE
    await check_counters(store)


async def test_a_payload_of_a_later_part_that_is_refused_leaves_nothing(store: Store) -> None:
    def texts(start: int, stop: int) -> list[str]:
        if stop > FIRST_PART:
            raise InvalidInput("the last payload is bad")
        return numbers(start, stop)

    with pytest.raises(InvalidInput, match="the last payload is bad"):
        await store.insert(alike(store, LARGE, texts))
    assert await all_tasks(store) == []
    assert await read_all(store) == []
    await put(store, "t")  # the connection is fit for use
    await check_counters(store)


async def test_a_caller_that_is_cancelled_in_a_part_leaves_nothing(store: Store) -> None:
    if store.one_writer:
        await _cancelled(store, FIRST_PART)  # it writes the group whole, or does not begin
    else:
        await _cancelled(store, LARGE)


async def _cancelled(store: Store, count: int) -> None:
    caller: asyncio.Task[Any] | None = None

    def texts(start: int, stop: int) -> list[str]:
        if stop == count:
            assert caller is not None
            caller.cancel()  # takes effect at its next pause: the first part is on its way
        return numbers(start, stop)

    caller = asyncio.create_task(store.insert(alike(store, count, texts)))
    with pytest.raises(asyncio.CancelledError):
        await caller
    await put(store, "t")
    assert len(await all_tasks(store)) in {1, 1 + count * store.one_writer}
    await check_counters(store)
