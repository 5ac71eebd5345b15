"""Values that a caller or a handler has encoded as JSON before (`msgspec.Raw`). One that is no JSON value is
refused alone: it must not reach the rows of others, which are written in the same statement."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast import Task, TaskQueue
from holdfast.errors import TaskFailed, UnserialisablePayload

NO_JSON = pytest.mark.parametrize(
    "text",
    ["1,2", '{"n": 1}, {"n": 2}', '{"n":', "NaN", "", "1e999", r'"\ud800"'],
    ids=["two", "two-objects", "cut", "nan", "empty", "out-of-range", "half-a-pair"],
)
CALLERS = 64


def queue_of(url: str) -> TaskQueue:
    queue = TaskQueue(url)

    async def echo(task: Task) -> Any:
        """Returns the text under `raw` as an encoded result."""
        payload = task.payload
        if isinstance(payload, dict) and "raw" in payload:
            return msgspec.Raw(payload["raw"].encode())
        return payload

    queue.register_handler("echo", echo)
    queue.register_handler("copy", echo)
    return queue


@NO_JSON
async def test_a_payload_that_is_no_json_leaves_those_of_other_callers_alone(
    url: str, text: str
) -> None:
    queue, raw = queue_of(url), msgspec.Raw(text.encode())
    async with queue.producer():
        payloads: list[Any] = list(range(CALLERS))
        payloads[20], payloads[30] = raw, {"within": raw}
        types = ["echo", "copy"]  # of two kinds, which one statement inserts, too
        calls = [queue.enqueue(types[n % 3 % 2], payload) for n, payload in enumerate(payloads)]
        handles = await asyncio.gather(*calls, return_exceptions=True)
        for n, handle in enumerate(handles):
            if n in (20, 30):
                assert isinstance(handle, UnserialisablePayload), handle
            else:
                assert isinstance(handle, str), handle
                task = await queue.get_task(handle)
                assert task is not None
                assert task.payload == n
        assert await queue.get_queue_size() == CALLERS - 2


@NO_JSON
async def test_a_list_with_a_payload_that_is_no_json_is_refused(url: str, text: str) -> None:
    queue, raw = queue_of(url), msgspec.Raw(text.encode())
    async with queue.producer():
        for bad in (raw, {"within": raw}):
            for of_one_kind in (True, False):
                items: list[dict[str, Any]] = [{"type": "echo", "payload": p} for p in (1, bad, 3)]
                if not of_one_kind:
                    items[0]["priority"] = "high"
                with pytest.raises(UnserialisablePayload):
                    await queue.enqueue_many(items)
        assert await queue.get_queue_size() == 0


async def test_an_encoded_payload_is_stored(url: str) -> None:
    queue, raw = queue_of(url), msgspec.Raw(b' {"a":\r\n [1, "\\u0000"]}\n')
    async with queue.producer():
        many = await queue.enqueue_many([{"type": "echo", "payload": p} for p in (raw, 2, raw)])
        for handle in (await queue.enqueue("echo", raw), many[0], many[2]):
            task = await queue.get_task(handle)
            assert task is not None
            assert task.payload == {"a": [1, "\0"]}


@NO_JSON
async def test_a_result_that_is_no_json_fails_its_task_only(url: str, text: str) -> None:
    queue = queue_of(url)
    async with queue:
        await queue.pause_queue()
        items = [{"type": "echo", "payload": n, "max_attempts": 1} for n in range(20)]
        items[7]["payload"] = {"raw": text}
        handles = await queue.enqueue_many(items)
        await queue.resume_queue()  # They run together, so their ends share a statement.
        for n, handle in enumerate(handles):
            if n == 7:
                with pytest.raises(TaskFailed, match="JSON"):
                    await handle.result(timeout=30)
            else:
                assert await handle.result(timeout=30) == n
