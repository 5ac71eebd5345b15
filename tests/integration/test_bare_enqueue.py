"""An enqueue with only a type and a payload: the second one of a type takes a shorter way.

It is the same task, whichever way it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from holdfast import TaskQueue
from holdfast.core.codec import dumps
from holdfast.engine.handlers import TypeConfig
from holdfast.errors import InvalidInput, UnserialisablePayload
from holdfast.store.fast import insert as fast_insert
from holdfast.store.rows import TypeRow

OWN = {"id", "created_at", "updated_at", "due_at"}
"""Fields in which two tasks of one request differ."""


def queue_of(url: str, **settings: Any) -> TaskQueue:
    queue = TaskQueue(url, **settings)

    @queue.task
    async def note(text: str = "") -> None:
        pass

    @queue.task(priority="high", max_attempts=7, keep_done=60.0, queue="mail")
    async def mail(to: str) -> None:
        pass

    @queue.task(tags=["red"])
    async def tagged() -> None:
        pass

    return queue


@pytest.fixture
def short_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The payloads of tasks that took the shorter way."""
    taken: list[str] = []
    prepare = fast_insert.prepare_insert

    def spied(*args: Any) -> Any:
        insert = prepare(*args)

        def spy(task_id: str, payload_json: str, now: float, hint: str) -> Any:
            taken.append(payload_json)
            return insert(task_id, payload_json, now, hint)

        return spy

    monkeypatch.setattr(fast_insert, "prepare_insert", spied)
    return taken


async def rows(queue: TaskQueue, ids: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    for task_id in ids:
        task = await queue.get_task(task_id)
        assert task is not None
        assert task.created_at == task.updated_at == task.due_at
        fields = msgspec.structs.asdict(task)
        found.append({name: value for name, value in fields.items() if name not in OWN})
    return found


@pytest.mark.parametrize("type", ["note", "mail"])
async def test_both_ways_make_the_same_task(url: str, short_ways: list[str], type: str) -> None:
    queue = queue_of(url)
    payload = {"text": 'quote " zero \x00'} if type == "note" else {"to": "you"}
    async with queue.producer():
        handles = [await queue.enqueue(type, payload) for _ in range(3)]
        assert len(short_ways) == 2
        assert all(handle.created for handle in handles)
        first, *others = await rows(queue, handles)
        assert others == [first, first]
        store = (await queue.open()).store
        events = [(await store.feed.history(handle))[0] for handle in handles]
        shown = [(e.kind, e.type, e.data, e.project, e.version) for e in events]
        assert shown == [shown[0]] * 3
        assert await queue.get_queue_size() == 3


async def test_tasks_with_tags_go_the_general_way(url: str, short_ways: list[str]) -> None:
    queue = queue_of(url)
    async with queue.producer():
        handles = [await queue.enqueue("tagged") for _ in range(3)]
        assert short_ways == []
        assert [task.id for task in await queue.find_tasks(q="tag:red")] == handles[::-1]


async def test_a_queue_without_bounds_takes_the_shorter_way(
    url: str, short_ways: list[str]
) -> None:
    """There is no backlog to count. Otherwise each payload would be checked and encoded for both ways."""
    queue = queue_of(url, max_depth=None)
    async with queue.producer():
        for _ in range(3):
            await queue.enqueue("note")
        assert len(short_ways) == 2
        assert await queue.get_queue_size() == 3


async def test_payloads_are_checked_on_both_ways(url: str) -> None:
    queue = queue_of(url)
    async with queue.producer():
        for _ in range(3):
            with pytest.raises(InvalidInput, match="mail"):
                await queue.enqueue("mail", {"from": "me"})
            with pytest.raises(InvalidInput):
                await queue.enqueue("mail", {"to": 5})
            with pytest.raises(UnserialisablePayload):
                await queue.enqueue("note", {"text": "\ud800"})
            await queue.enqueue("mail", {"to": "you"})
            await queue.enqueue("note")
        assert await queue.get_queue_size() == 6


async def test_a_handler_that_is_registered_again_counts(url: str) -> None:
    queue = queue_of(url)
    async with queue.producer():
        for _ in range(2):
            await queue.enqueue("note")
        handler = queue.definitions.handlers.get("note")
        assert handler is not None
        queue.task(name="note", max_attempts=9)(handler.function)
        handle = await queue.enqueue("note")
        assert (await handle.get()).max_attempts == 9


async def test_concurrent_callers_share_commits_with_the_first(
    url: str, short_ways: list[str]
) -> None:
    queue = queue_of(url)
    async with queue.producer():
        await queue.enqueue("note")
        handles = await asyncio.gather(
            *(queue.enqueue("note", {"text": str(n)}) for n in range(20))
        )
        assert len(short_ways) == 1, "the others wait for it, and are one batch"
        assert await queue.get_queue_size() == 21
        texts = [(await handle.get()).payload["text"] for handle in handles]
        assert texts == [str(n) for n in range(20)]


async def test_a_caller_that_gives_up_leaves_the_queue_usable(url: str) -> None:
    queue = queue_of(url)
    async with queue.producer():
        await queue.enqueue("note")
        for _ in range(5):
            call = asyncio.create_task(queue.enqueue("note"))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await queue.enqueue("note")
        assert 6 <= await queue.get_queue_size() <= 11


async def test_a_delay_that_is_no_time_is_refused_on_both_ways(url: str) -> None:
    """False and 0j equal the delay of a caller that gives none."""
    queue = queue_of(url)
    async with queue.producer():
        for _ in range(3):
            for wrong in (False, 0j):
                with pytest.raises(InvalidInput, match="delay"):
                    await queue.enqueue("note", delay=cast(float, wrong))
                with pytest.raises(InvalidInput, match="delay"):
                    await queue.enqueue_many([{"type": "note", "delay": wrong}])
            await queue.enqueue("note")


async def test_a_handler_that_is_registered_while_its_type_is_looked_up_counts(
    url: str, short_ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = queue_of(url)
    async with queue.producer():
        store = (await queue.open()).store
        config = TypeConfig(max_attempts=3)
        await store.upkeep.register_types([TypeRow("late", "default", dumps(config))], actor="n")
        reads, read_types = store.reads, store.reads.types

        async def slowly() -> object:
            types = await read_types()
            queue.task(name="late", max_attempts=9)(_nothing)
            return types

        monkeypatch.setattr(reads, "types", slowly)
        handles = [await queue.enqueue("late") for _ in range(3)]
        assert [(await handle.get()).max_attempts for handle in handles] == [3, 9, 9]
        assert len(short_ways) == 1


async def _nothing() -> None:
    pass
