"""The live feed by WebSocket, with a real server and real clients."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.bus.port import FEED, WORK
from holdfast.clock import VirtualClock
from holdfast.core.event import Event
from holdfast.core.subscription import FlowBounds, StreamReset
from holdfast.gateway.feed import broadcaster as broadcaster_module, reading
from holdfast.gateway.feed.broadcaster import Broadcaster
from tests.feed_support import (
    WAIT_SECONDS,
    Client,
    Door,
    Frame,
    ScriptedDirectory,
    ScriptedFeed,
    Served,
    person,
    served,
)


def offset(position: str) -> int:
    return int(position.partition(":")[2])


def check_chain(frames: list[Frame], start: str) -> list[int]:
    """Each frame names the one before. Returns the offsets of the events."""
    last, events = start, []
    for frame in frames:
        assert frame["prev"] == last
        if frame["type"] == "bookmark":
            assert offset(frame["position"]) >= offset(last)
        else:
            assert offset(frame["position"]) > offset(last)
            events.append(offset(frame["position"]))
        last = frame["position"]
    return events


async def live(client: Client, channel: str, **fields: Any) -> str:
    """Subscribes without a snapshot and waits until the subscription is live. Returns its position."""
    fields.setdefault("position", "now")
    await client.subscribe(channel, **fields)
    return str((await client.until("bookmark"))[-1]["position"])


async def test_hello_then_snapshot_then_live() -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued")
    async with served(feed) as server, server.client() as client:
        hello = await client.next()
        assert (hello["type"], hello["protocol"]) == ("hello", "holdfast.v1")
        assert (hello["principal"], hello["epoch"]) == ("user:ann", "e1")
        assert (hello["head"], hello["oldest"]) == ("e1:1", "e1:0")
        assert client.socket.subprotocol == "holdfast.v1"
        await client.send("subscribe", channel="task:t1")
        assert await client.next() == {
            "type": "subscribed",
            "id": "task:t1",
            "channel": "task:t1",
            "mode": "snapshot",
            "position": "e1:1",
        }
        snapshot = await client.next()
        assert (snapshot["type"], snapshot["position"]) == ("snapshot", "e1:1")
        assert (snapshot["part"], snapshot["last"]) == (1, True)
        assert snapshot["payload"]["topic"] == "task:t1"
        bookmark = await client.next()
        assert (bookmark["type"], bookmark["live"]) == ("bookmark", True)
        assert (bookmark["prev"], bookmark["position"]) == ("e1:1", "e1:1")
        feed.commit("task.started", node="n1", attempt=1)
        event = await client.next()
        assert (event["type"], event["kind"]) == ("task.status_changed", "task.started")
        assert (event["id"], event["channel"]) == ("task:t1", "task:t1")
        assert (event["prev"], event["position"]) == ("e1:1", "e1:2")
        assert (event["class"], event["at"]) == ("critical", "2027-01-15T08:00:00.000Z")
        assert event["payload"] == {
            "task_id": "t1",
            "from": "queued",
            "to": "running",
            "desired": "run",
            "node": "n1",
            "attempt": 1,
        }


async def test_a_snapshot_in_parts() -> None:
    feed, directory = ScriptedFeed(), ScriptedDirectory()
    directory.parts = 3
    async with served(feed, directory=directory) as server, server.client() as client:
        await client.subscribe("project:default")
        parts = [await client.next() for _ in range(3)]
        assert [(part["part"], part["last"]) for part in parts] == [
            (1, False),
            (2, False),
            (3, True),
        ]


@pytest.mark.parametrize("ring_events", [100_000, 3], ids=["ring", "store"])
@pytest.mark.parametrize("channel", ["project:default", "task:t1"])
async def test_replay_from_a_position_then_live(ring_events: int, channel: str) -> None:
    feed = ScriptedFeed()
    async with served(feed, ring_events=ring_events) as server, server.client() as client:
        for _ in range(7):
            feed.commit("task.started", "task.completed")
        feed.commit("task.started", task="t2")
        await server.feed.broadcaster.refresh()
        subscribed = (await client.subscribe(channel, position="e1:4"))[-1]
        assert (subscribed["mode"], subscribed["position"]) == ("replay", "e1:4")
        replayed = await client.until("bookmark")
        assert replayed[-1]["live"] is True
        assert replayed[-1]["position"] == "e1:15"
        feed.commit("task.started")
        events = check_chain([*replayed, await client.next()], "e1:4")
        whole = [*range(5, 17)]
        assert events == (
            whole if channel == "project:default" else [each for each in whole if each != 15]
        )
        if ring_events == 3 and channel == "task:t1":
            assert feed.histories


async def test_a_position_of_the_store_that_the_gateway_has_not_read_yet() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        feed.commit("task.enqueued", hint=False)
        assert (await client.subscribe("task:t1", position="e1:1"))[-1]["type"] == "subscribed"
        feed.commit("task.started")
        assert check_chain(await client.until("task.status_changed"), "e1:1") == [2]


async def test_a_lost_hint_costs_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster_module, "POLL_SECONDS", 0.05)
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        await live(client, "task:t1")
        feed.commit("task.started", hint=False)
        assert (await client.next())["position"] == "e1:1"


async def test_reconnect_with_the_last_position_misses_and_repeats_nothing() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server:
        position, events = "now", []
        for round_ in range(5):
            async with server.client() as client:
                subscribed = (await client.subscribe("task:t1", position=position))[-1]
                position = subscribed["position"]
                frames = await client.until("bookmark")
                feed.commit("task.started", "task.completed")
                # The client leaves after the first event of the transaction, or after both.
                frames += await client.until("task.status_changed", count=1 + round_ % 2)
                events += check_chain(frames, position)
                position = frames[-1]["position"]
        assert events == list(range(1, events[-1] + 1))
        assert events[-1] == 9


# -- projects, filters, merging --------------------------------------------------------------------


async def test_events_of_other_projects_are_not_delivered() -> None:
    feed, door = ScriptedFeed(), Door(person(projects=("web",)))
    directory = ScriptedDirectory()
    directory.projects["node:n1"] = "web"
    async with served(feed, directory=directory, door=door) as server, server.client() as client:
        await live(client, "node:n1")
        feed.commit("task.started", node="n1")
        feed.events[-1] = in_project(feed.events[-1], "web")
        feed.commit("task.completed", node="n1")
        feed.commit("task.completed", node="n1")
        feed.events[-1] = in_project(feed.events[-1], "web")
        assert [(await client.next())["position"] for _ in range(2)] == ["e1:1", "e1:3"]


def in_project(event: Event, project: str) -> Event:
    return msgspec.structs.replace(event, project=project)


async def test_kinds_and_classes() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        await live(
            client,
            "task:t1",
            id="some",
            kinds=["task.comp*", "task.progress"],
            classes=["critical"],
        )
        feed.commit("task.started", "task.progress", "task.completed")
        event = await client.next()
        assert (event["id"], event["kind"], event["position"]) == ("some", "task.completed", "e1:3")


async def test_informational_frames_are_merged_and_flushed_before_a_critical_one() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        await live(client, "task:t1", max_delay_ms=5000)
        for start in (0, 2, 4):
            feed.commit("task.output", fence=1, stream="stdout", start=start, size=2, data="ab")
            await server.feed.broadcaster.refresh()
        feed.commit("task.completed")
        output, completed = await client.next(), await client.next()
        assert (output["type"], output["merged"]) == ("task.output", 3)
        assert (output["payload"]["data"], output["payload"]["size"]) == ("ababab", 6)
        assert (output["position"], completed["prev"], completed["position"]) == (
            "e1:3",
            "e1:3",
            "e1:4",
        )


async def test_informational_frames_do_not_wait_for_ever() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        await live(client, "task:t1", max_delay_ms=50)
        feed.commit("task.metrics", fence=1, totals={"n": 1})
        assert (await client.next())["type"] == "task.metrics"


async def test_no_bookmark_splits_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster_module, "PAGE_EVENTS", 3)
    monkeypatch.setattr(reading, "PAGE_EVENTS", 3)
    monkeypatch.setattr(broadcaster_module, "BOOKMARK_SECONDS", 0.0)
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client, server.client() as other:
        start = await live(client, "project:default")
        boundaries, frames, others = [], [], []
        for size in (2, 5, 1, 7, 4):
            feed.commit(*["task.started"] * size)
            boundaries.append(feed.head)
            others += await other.subscribe("project:default", position="e1:0", id=f"s{size}")
            frames += await client.until("task.status_changed", count=size)
        server.feed.broadcaster.tick(server.feed.broadcaster.clock.monotonic() + 2.0)
        assert check_chain(frames, start) == list(range(1, feed.head + 1))
        while len({each["id"] for each in others if "live" in each}) < 5:
            others.append(await other.next())
        marks = {offset(each["position"]) for each in others if each["type"] == "bookmark"}
        assert marks <= set(boundaries)


async def test_an_idle_subscription_gets_a_bookmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster_module, "BOOKMARK_SECONDS", 0.0)
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        start = await live(client, "task:t1")
        feed.commit("task.started", task="t2")
        await server.feed.broadcaster.refresh()
        server.feed.broadcaster.tick(server.feed.broadcaster.clock.monotonic() + 2.0)
        bookmark = await client.next()
        assert (bookmark["type"], bookmark["prev"], bookmark["position"]) == (
            "bookmark",
            start,
            "e1:1",
        )
        assert "live" not in bookmark


# -- slow clients ----------------------------------------------------------------------------------

FLOW = FlowBounds(high_bytes=20_000, low_bytes=5_000)


async def publish_until_parked(server: Served, feed: ScriptedFeed, note: str) -> None:
    """Commits large events until the sockets of a client that does not read are full."""
    broadcaster = server.feed.broadcaster
    for _ in range(2_000):
        feed.commit("task.progress", note=note, hint=False)
        await broadcaster.read_page()
        if any(
            connection.tick(broadcaster.clock.monotonic()) > FLOW.high_bytes
            for connection in broadcaster.connections
        ):
            return
    raise AssertionError("the client was never parked")


@pytest.mark.parametrize("ring_events", [100_000, 3], ids=["ring", "store"])
async def test_a_slow_client_is_parked_and_caught_up(ring_events: int) -> None:
    feed = ScriptedFeed()
    async with (
        served(feed, ring_events=ring_events, flow=FLOW) as server,
        server.client(max_queue=1) as slow,
        server.client() as other,
    ):
        start = await live(slow, "task:t1")
        await live(other, "task:t1")
        reader = asyncio.create_task(other.until("task.status_changed"))
        await publish_until_parked(server, feed, "x" * 8_000)
        parked_at = feed.head
        for _ in range(20):
            feed.commit("task.progress", note="y" * 8_000)
        feed.commit("task.completed")
        # The other client gets everything while the slow one reads nothing.
        assert len([each for each in await reader if each["type"] != "bookmark"]) == feed.head
        frames = await slow.until("task.status_changed")
        assert parked_at < feed.head
        assert check_chain(frames, start) == list(range(1, feed.head + 1))
        feed.commit("task.started")
        assert check_chain(await slow.until("task.status_changed"), frames[-1]["position"]) == [
            feed.head
        ]


async def test_a_client_that_reads_nothing_is_closed() -> None:
    feed = ScriptedFeed()
    async with served(feed, flow=FLOW) as server, server.client(max_queue=1) as slow:
        await live(slow, "task:t1")
        await publish_until_parked(server, feed, "x" * 8_000)
        broadcaster = server.feed.broadcaster
        (connection,) = broadcaster.connections
        now = broadcaster.clock.monotonic()
        connection.tick(now)
        connection.tick(now + 31.0)
        assert (await slow.until("bye"))[-1]["code"] == 4408
        assert await slow.close_code() == 4408


async def test_an_unreachable_store_delays_and_loses_nothing() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        await live(client, "task:t1")
        feed.is_away = True
        feed.commit("task.started")
        await server.feed.broadcaster.refresh()
        assert server.feed.broadcaster.is_store_away
        feed.is_away = False
        feed.commit("task.completed")
        assert [(await client.next())["position"] for _ in range(2)] == ["e1:1", "e1:2"]


async def test_another_server_protocol_serves_the_same_frames() -> None:
    """Without direct writes, as under another ASGI server."""
    feed = ScriptedFeed()
    async with served(feed, ws="websockets-sansio") as server, server.client() as client:
        start = await live(client, "task:t1")
        feed.commit("task.started", "task.completed")
        frames = await client.until("task.status_changed", count=2)
        assert check_chain(frames, start) == [1, 2]


async def test_a_query_filters_the_replay_and_the_live_feed() -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued", "task.started", task="t1", node="n1")
    feed.commit("task.enqueued", task="t2")
    async with served(feed) as server, server.client() as client:
        subscribed = (await client.subscribe(None, query="status:running", position="e1:0"))[-1]
        assert (subscribed["id"], subscribed["channel"]) == ("query", "query")
        frames = await client.until("bookmark")
        assert check_chain(frames, "e1:0") == [2]
        assert frames[0]["payload"]["from"] == "queued"
        await client.subscribe("task:t2", query="-status:running", id="mine", position="now")
        await client.until("bookmark")
        feed.commit("task.progress", task="t1")
        feed.commit("task.started", task="t2")
        feed.commit("task.completed", task="t2")
        frames = await client.until("task.status_changed", count=2)
        assert [(frame["id"], frame["kind"]) for frame in frames] == [
            ("query", "task.started"),
            ("mine", "task.completed"),
        ]


async def test_a_query_covers_the_projects_of_its_reader() -> None:
    feed = ScriptedFeed()
    door = Door(person(projects=("a", "b")))
    async with served(feed, door=door) as server, server.client() as client:
        await client.subscribe(None, query="id:*", position="now")
        await client.until("bookmark")
        for project in ("a", "other", "b"):
            feed.commit("task.enqueued", task=f"in-{project}", project=project)
        frames = await client.until("task.status_changed", count=2)
        assert [frame["payload"]["task_id"] for frame in frames] == ["in-a", "in-b"]


@pytest.mark.parametrize("topic", [FEED, WORK])
async def test_any_hint_of_a_commit_wakes_the_reader(topic: str) -> None:
    """An enqueue hints at work only. The virtual clock never polls."""
    feed = ScriptedFeed()
    broadcaster = Broadcaster(feed, feed.bus, VirtualClock())
    await broadcaster.start()
    await broadcaster.refresh()
    feed.commit("task.enqueued", hint=False)
    feed.bus.publish(topic)
    async with asyncio.timeout(WAIT_SECONDS):
        while broadcaster.head < feed.head:
            await broadcaster.advanced(WAIT_SECONDS)
    await broadcaster.stop()


async def test_the_time_until_the_slowest_reader_falls_off() -> None:
    feed = ScriptedFeed()
    broadcaster = Broadcaster(feed, feed.bus, VirtualClock(), keep_seconds=100.0)
    await broadcaster.start()
    feed.commit("task.enqueued", "task.started")
    await broadcaster.read_page()
    assert broadcaster.falloff_seconds() == 100.0, "no reader is behind"
    slow = SlowConnection()
    broadcaster.connections[slow] = None
    feed.seconds = 30.0
    assert broadcaster.falloff_seconds() == 70.0
    feed.seconds = 200.0
    assert broadcaster.falloff_seconds() == 0.0
    slow.offset = None
    assert broadcaster.falloff_seconds() == 100.0
    await broadcaster.stop()


class SlowConnection:
    """A connection that has read nothing."""

    offset: int | None = 0

    def slowest(self) -> int | None:
        return self.offset

    def tick(self, now: float) -> int:
        return 0

    def park(self) -> None:
        raise AssertionError

    def recheck(self) -> None:
        raise AssertionError

    def reset_all(self, reason: StreamReset) -> None:
        raise AssertionError
