"""Tags and metadata through a queue: on every way in, in the handler, and found by lists."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Context, TaskQueue
from holdfast.core.tags import TAG_CHARS_MAX, TAGS_MAX
from holdfast.errors import BadConfig, InvalidInput


def queue_of(url: str) -> TaskQueue:
    queue = TaskQueue(url)

    @queue.task(tags=["mail"])
    async def send(ctx: Context, to: str = "ann") -> list[str]:
        return list(ctx.task.tags)

    return queue


async def test_every_way_in_gives_them(url: str) -> None:
    queue = TaskQueue(url)
    send = queue.task(name="send", tags=["mail"])(_send)
    async with queue.producer():
        plain = await queue.enqueue("send", {})
        options = send.options(tags=["vip"], metadata={"tenant": "acme"})
        one = await options.enqueue("bob")
        many = await queue.enqueue_many([options.request("eve"), {"type": "send", "payload": {}}])
        group = await queue.enqueue_group([{"type": "send", "payload": {}, "tags": {"b", "a"}}])
        await queue.schedule("nightly", "@daily", "send", {})
        run = await queue.run_schedule("nightly")
        tags = [(await handle.get()).tags for handle in (plain, one, *many)]
        assert tags == [("mail",), ("mail", "vip"), ("mail", "vip"), ("mail",)]
        assert run.tags == ("mail",)
        grouped = await queue.get_task(group.task_ids[0])
        assert grouped is not None
        assert grouped.tags == ("a", "b", "mail")
        found = await queue.find_tasks(q="tag:vip meta.tenant:acme")
        assert [task.id for task in found] == [many[0].id, one.id]
        assert found[0].metadata == {"tenant": "acme"}
        rest = await queue.find_tasks(q="tag:a OR tag:vip", status="queued", after=many[0].id)
        assert [task.id for task in rest] == [one.id]
        assert await queue.find_tasks(q="tag:a OR tag:vip", type="other") == []
    await queue.stop()


async def _send(to: str = "ann") -> None:
    pass


async def test_a_handler_and_its_repeats_have_them(url: str) -> None:
    queue = queue_of(url)
    async with queue:
        first = await queue.enqueue("send", {}, tags=("vip",), idempotency_key="k")
        assert await first.result(timeout=30) == ["mail", "vip"]
        again = await queue.enqueue("send", {}, tags=["vip", "vip"], idempotency_key="k")
        assert (again.id, again.created) == (first.id, False)


@pytest.mark.parametrize(
    "tags",
    [
        "vip",
        [""],
        ["a\nb"],
        [1],
        ["x" * (TAG_CHARS_MAX + 1)],
        [f"t{n}" for n in range(TAGS_MAX + 1)],
    ],
)
async def test_wrong_tags_are_refused(tags: Any) -> None:
    queue = queue_of("sqlite://")
    async with queue.producer():
        with pytest.raises(InvalidInput, match="tag"):
            await queue.enqueue("send", {}, tags=tags)
        assert await queue.find_tasks() == []
    with pytest.raises(BadConfig, match="tag"):
        queue.task(tags=tags)
    await queue.stop()


async def test_the_tags_of_a_type_count_too() -> None:
    queue = queue_of("sqlite://")
    async with queue.producer():
        with pytest.raises(InvalidInput, match=f"at most {TAGS_MAX}"):
            await queue.enqueue("send", {}, tags=[f"t{n}" for n in range(TAGS_MAX)])
        with pytest.raises(InvalidInput, match="has a sort"):
            await queue.find_tasks(q="tag:a sort:updated")
    await queue.stop()
