"""Task groups on every store: one transaction with their tasks, in order, gone with them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.group import GroupProgress, NewGroup, member_id
from holdfast.core.submit import Submission
from holdfast.core.task import Status
from holdfast.core.unique import Unique
from holdfast.errors import Conflict, DuplicateTask
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import asked, claim, complete, finish_all, fresh, read_all


async def make(store: Store, group_id: str, tasks: list[Submission]) -> list[str]:
    group = NewGroup(group_id, "default", len(tasks))
    return [each.task_id for each in await store.insert(tasks, into=group)]


def named(store: Store, group_id: str, count: int, **fields: Any) -> list[Submission]:
    return [asked(store, member_id(group_id, nth), **fields) for nth in range(count)]


async def progress(store: Store, group_id: str) -> GroupProgress:
    found = await store.groups.progress(group_id)
    assert found is not None
    return found


async def test_a_group_has_its_tasks_in_order_and_counts_them(store: Store) -> None:
    ids = await make(store, "g", [fresh(store) for _ in range(5)])
    assert [task_id for _, task_id in await store.groups.members("g")] == ids
    assert [nth for nth, _ in await store.groups.members("g", after=2, limit=1)] == [3]
    assert await store.groups.progress("none-such") is None
    found = await progress(store, "g")
    assert (found.size, found.counts, found.is_ended) == (5, {Status.QUEUED: 5}, False)
    taken = await claim(store, 2)
    await complete(store, taken[0])
    found = await progress(store, "g")
    counts = {Status.QUEUED: 3, Status.RUNNING: 1, Status.COMPLETED: 1}
    assert (found.counts, found.ended, found.open) == (counts, 1, 4)
    assert [task_id for _, task_id in await store.groups.open_members("g", below=5)] == [ids[4]]
    left = await store.groups.open_members("g", below=5, limit=9)
    assert [task_id for _, task_id in left] == [
        each for each in reversed(ids) if each != taken[0].id
    ]


async def test_a_repeat_is_answered_with_the_tasks_of_unique_windows(store: Store) -> None:
    """The window that answered the first request is free when it is repeated."""
    window = Unique(until="ended")
    [holder] = await store.insert([fresh(store, unique=window, payload={"n": 0})])

    def tasks() -> list[Submission]:
        return [
            asked(store, member_id("g", nth), unique=window, payload={"n": nth}) for nth in range(2)
        ]

    assert await make(store, "g", tasks()) == [holder.task_id, "g.1"]
    await finish_all(store)
    assert await make(store, "g", tasks()) == [holder.task_id, "g.1"]
    assert [task_id for _, task_id in await store.groups.members("g")] == [holder.task_id, "g.1"]
    kinds = [event.kind for event in await read_all(store)]
    assert kinds.count("task.enqueued") == 2


async def test_a_named_group_is_made_once(store: Store) -> None:
    first = await make(store, "g", named(store, "g", 3))
    assert await make(store, "g", named(store, "g", 3)) == first
    assert [event.kind for event in await read_all(store)] == ["task.enqueued"] * 3
    with pytest.raises(Conflict, match="a different group"):
        await make(store, "g", named(store, "g", 4))
    with pytest.raises(DuplicateTask):
        await make(store, "g", named(store, "g", 3, payload={"n": 2}))
    assert (await progress(store, "g")).size == 3
    made = await asyncio.gather(*[make(store, "h", named(store, "h", 3)) for _ in range(4)])
    assert len({tuple(ids) for ids in made}) == 1


async def test_a_refused_task_leaves_no_group(store: Store) -> None:
    await store.insert([asked(store, "taken", payload={"n": 1})])
    with pytest.raises(DuplicateTask):
        await make(store, "g", [fresh(store), asked(store, "taken", payload={"n": 2})])
    assert await store.groups.progress("g") is None
    assert await store.groups.members("g") == []


async def test_a_member_may_be_a_task_that_was_there(store: Store) -> None:
    ended = Unique(until="ended")
    [before] = await store.insert([fresh(store, unique=ended)])
    ids = await make(store, "g", [fresh(store, payload={"n": 9}), fresh(store, unique=ended)])
    assert ids[1] == before.task_id
    assert (await progress(store, "g")).counts == {Status.QUEUED: 2}


async def test_members_go_with_their_tasks_and_the_group_with_the_last(store: Store) -> None:
    await make(store, "g", [fresh(store), fresh(store, delay_seconds=900.0)])
    await finish_all(store)
    later = store.now() + 1
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    found = await progress(store, "g")
    assert (found.size, found.pruned, found.ended, found.open) == (2, 1, 1, 1)
    other = await make(store, "h", [fresh(store)])
    await finish_all(store)
    later = store.now() + 1
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    assert await store.groups.progress("h") is None
    assert [each[1] for each in await store.groups.members("h")] != other
    assert (await progress(store, "g")).open == 1
