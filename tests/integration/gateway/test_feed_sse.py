"""The live feed by server-sent events and by long poll, with a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from holdfast.core.subscription import FlowBounds
from holdfast.gateway.feed import sse
from tests.feed_support import (
    WAIT_SECONDS,
    Door,
    ScriptedDirectory,
    ScriptedFeed,
    Served,
    person,
    served,
)

Message = dict[str, Any]


class Stream:
    """What a browser's EventSource reads."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Message:
        """The next message: its `id`, `event` and `data`, or a comment."""
        message: Message = {}
        async with asyncio.timeout(WAIT_SECONDS):
            async for line in self._lines:
                if not line:
                    if message:
                        break
                    continue
                name, _, value = line.partition(":")
                message[name] = value.strip()
        if "data" in message:
            message["data"] = json.loads(message["data"])
        return message

    async def until(self, *events: str) -> list[Message]:
        messages: list[Message] = []
        while not messages or messages[-1].get("event") not in events:
            messages.append(await self.next())
            assert messages[-1], "the stream has ended"
        return messages


@asynccontextmanager
async def stream(server: Served, query: str, **headers: str) -> AsyncIterator[Stream]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        httpx2.AsyncClient(timeout=WAIT_SECONDS, trust_env=False) as client,
        client.stream("GET", f"{server.http}/api/v1/stream?{query}", headers=names) as response,
    ):
        yield Stream(response)


async def get(server: Served, path: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=WAIT_SECONDS, trust_env=False) as client:
        return await client.get(f"{server.http}{path}", headers=headers)


async def test_snapshot_then_live_then_resume_with_last_event_id() -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued")
    async with served(feed) as server:
        async with stream(server, "topics=task:t1") as events:
            headers = events.response.headers
            assert headers["content-type"].startswith("text/event-stream")
            assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
            assert await events.next() == {"retry": "2000"}
            names = [message["event"] for message in await events.until("bookmark")]
            assert names == ["subscribed", "snapshot", "bookmark"]
            feed.commit("task.started", "task.completed")
            first = await events.next()
            assert (first["id"], first["event"]) == ("e1:2", "task.status_changed")
            assert (first["data"]["position"], first["data"]["prev"]) == ("e1:2", "e1:1")
        feed.commit("task.replayed")
        # A browser repeats the URL, with the id of the last message that it got.
        async with stream(server, "topics=task:t1&snapshot=true", last_event_id="e1:2") as events:
            messages = await events.until("bookmark")
            assert [message["event"] for message in messages[1:]] == [
                "subscribed",
                "task.status_changed",
                "task.status_changed",
                "bookmark",
            ]
            assert [message["id"] for message in messages if "id" in message] == [
                "e1:3",
                "e1:4",
                "e1:4",
            ]


async def test_a_topic_with_a_comma_is_given_by_itself() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server:
        query = "topic=task:a%2Cb&topics=task:t1&topic=task:t2&after=now"
        async with stream(server, query) as events:
            shown = (await events.until("subscribed"))[-1]["data"]
        assert "task:a,b" in json.dumps(shown)


async def test_several_topics_have_one_position() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server:
        for task in ("t1", "t2", "t3", "t1"):
            feed.commit("task.started", task=task, node="n1")
        await server.feed.broadcaster.refresh()
        async with stream(server, "topics=task:t1,task:t2&after=e1:0") as events:
            messages = await events.until("bookmark")
            assert [message["id"] for message in messages if "id" in message] == [
                "e1:1",
                "e1:2",
                "e1:4",
                "e1:4",
            ]


async def test_a_reset_ends_the_stream() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server:
        async with stream(server, "topics=task:t1&after=other:7") as events:
            reset = (await events.until("reset"))[-1]
            assert reset["data"]["reason"] == "epoch"
            assert "id" not in reset
            assert await events.next() == {}
        async with stream(server, "topics=task:t1&after=now") as events:
            await events.until("bookmark")
            feed.replace("e2")
            assert (await events.until("reset"))[-1]["data"]["reason"] == "epoch"
            assert await events.next() == {}
        while server.feed.broadcaster.connections:
            await server.feed.broadcaster.refresh()


async def test_an_idle_stream_has_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.01)
    async with (
        served(ScriptedFeed()) as server,
        stream(server, "topics=task:t1&after=now") as events,
    ):
        await events.until("bookmark")
        assert await events.next() == {"": "hb"}


async def test_a_closed_stream_is_forgotten() -> None:
    feed = ScriptedFeed()
    door = Door()
    async with served(feed, door=door) as server:
        async with stream(server, "topics=task:t1&after=now") as events:
            await events.until("bookmark")
            assert len(server.feed.broadcaster.connections) == 1
        while server.feed.broadcaster.connections:
            feed.commit("task.started")
            await server.feed.broadcaster.refresh()
        assert server.feed.broadcaster.lanes == {}
        assert door.closed == ["ann"]


async def test_a_slow_stream_is_parked_and_caught_up() -> None:
    feed = ScriptedFeed()
    flow = FlowBounds(high_bytes=20_000, low_bytes=5_000)
    async with (
        served(feed, flow=flow) as server,
        stream(server, "topics=task:t1&after=now") as events,
    ):
        await events.until("bookmark")
        broadcaster = server.feed.broadcaster
        (connection,) = broadcaster.connections
        while connection.tick(broadcaster.clock.monotonic()) <= flow.high_bytes:
            feed.commit("task.progress", note="x" * 8_000, hint=False)
            await broadcaster.read_page()
        for _ in range(20):
            feed.commit("task.progress", note="y" * 8_000)
        feed.commit("task.completed")
        messages = await events.until("task.status_changed")
        ids = [
            int(message["id"].partition(":")[2])
            for message in messages
            if message["event"] != "bookmark"
        ]
        assert ids == list(range(1, feed.head + 1))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "topics=",
        "topics=moon:1",
        "topics=task:t1&after=yesterday",
        "topics=task:t1&classes=loud",
        "topics=task:t1&snapshot=maybe",
        "topics=task:t1&positon=e1:1",
        "topics=task:t1&after=e1:0&after=e1:1",
        "topics=" + ",".join(["task:t1"] * 51),
        "topics=task:t1&kinds=" + ",".join(f"k{number}" for number in range(51)),
    ],
    ids=[
        "none",
        "empty",
        "channel",
        "position",
        "class",
        "flag",
        "unknown",
        "twice",
        "topics",
        "kinds",
    ],
)
async def test_bad_queries(query: str) -> None:
    async with served(ScriptedFeed()) as server:
        for path in ("stream", "poll"):
            answer = await get(server, f"/api/v1/{path}?{query}")
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid-input")
        assert not server.feed.broadcaster.connections


async def test_access() -> None:
    directory = ScriptedDirectory()
    directory.gone.add("task:gone")
    door = Door(person(projects=("default",)))
    async with served(ScriptedFeed(), door=door, directory=directory) as server:
        for path in ("stream", "poll"):
            answers = [
                (await get(server, f"/api/v1/{path}?topics={topic}")).status_code
                for topic in ("task:gone", "project:other", "user:bob")
            ]
            assert answers == [404, 404, 403]
            refused = await get(
                server, f"/api/v1/{path}?topics=task:t1", authorization="Bearer mallory"
            )
            assert refused.status_code == 401
        assert not server.feed.broadcaster.connections
