"""Fair types by the calls of a queue: weights, why, the option."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import TaskQueue
from holdfast.core.codec import dumps
from holdfast.errors import BadConfig, InvalidInput, UnknownType
from holdfast.queue.why import reasons_of
from holdfast.store.feed import Page
from holdfast.store.rows import NodeRow


@pytest.fixture
def queue() -> TaskQueue:
    queue = TaskQueue("sqlite://")

    @queue.task(fair=True)
    async def export(number: int) -> int:
        return number

    return queue


async def test_weights_are_set_listed_and_removed(queue: TaskQueue) -> None:
    async with queue.producer():
        await queue.set_weight("export", "gold", 4, actor="ann", reason="pays")
        await queue.set_weight("export", "silver", 2)
        await queue.set_weight("export", "silver", 1)
        [gold] = await queue.weights("export")
        assert (gold.key, gold.weight, gold.set_by) == ("gold", 4, "ann")
        assert await queue.weights("export", after="gold") == []
        events = [event async for event in _events(queue)]
    assert [(event.data["key"], event.data["weight"]) for event in events] == [
        ("gold", 4),
        ("silver", 2),
        ("silver", 1),
    ]
    assert events[0].data["reason"] == "pays"


async def _events(queue: TaskQueue) -> Any:
    store = (await queue.parts.sessions.open()).store
    page = await store.feed.read(None, 100)
    assert isinstance(page, Page)
    for event in page.events:
        if event.kind == "type.weighted":
            yield event


@pytest.mark.parametrize("weight", [0, -1, 1001, True, 1.5, "2"])
async def test_a_wrong_weight_is_refused(queue: TaskQueue, weight: Any) -> None:
    async with queue.producer():
        with pytest.raises(InvalidInput, match="weight"):
            await queue.set_weight("export", "gold", weight)
        with pytest.raises(UnknownType):
            await queue.set_weight("exprt", "gold", 2)


async def test_why_says_how_far_the_turn_is(queue: TaskQueue) -> None:
    async with queue.producer():
        await queue.set_weight("export", "gold", 3)
        tasks = [
            await queue.enqueue("export", {"number": n}, key=key)
            for n, key in enumerate(["a", "gold", "a", None])
        ]
        assert (await queue.why(tasks[2])).reasons[0].code == "no-handler"
        store = (await queue.parts.sessions.open()).store
        view = await store.reads.situation(tasks[2])
        assert view is not None
        assert view.place == ("a", 1, 3, 5)
        serves = dumps({"types": ["export"], "queues": ["default"], "lease_seconds": 9.0})
        node = NodeRow("w", 0.0, store.now(), serves)
        [reason] = reasons_of(replace(view, nodes=[node]))
    assert reason.code == "turn"
    assert reason.data == {"key": "a", "ahead": 1, "keys": 3, "round": 5}
    assert "3 keys take turns, which start 5 tasks in a round" in reason.text


def test_the_option_is_a_flag() -> None:
    queue = TaskQueue("sqlite://")
    with pytest.raises(BadConfig, match="fair is 'yes'"):

        @queue.task(fair="yes")  # type: ignore[call-overload]
        async def wrong() -> None: ...
