"""`Watch` through proxies that refuse WebSockets, or streams too."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.watch import Watch
from holdfast.core.errors import Unauthenticated
from holdfast.errors import FeedReset, NotFound
from proof.lab.proxy import Link, Proxy
from tests.feed_support import (
    ScriptedDirectory,
    ScriptedFeed,
    served,
)
from tests.integration.client.watch_support import closed, cut, http, offsets, take

__all__ = ["closed"]


class NoUpgrades(Proxy):
    """A proxy that passes plain requests on, and answers those for a WebSocket itself."""

    refused = 0

    async def _requests(self, link: Link, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"upgrade: websocket" in head.lower():
            self.refused += 1
            link.client.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            link.server.close()
            return
        link.server.write(head)
        await super()._requests(link, reader)


async def test_each_event_once_through_a_proxy_that_refuses_upgrades() -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued")
    directory = ScriptedDirectory()
    directory.gone.add("task:nothing")
    async with served(feed, directory=directory) as server, NoUpgrades(server.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        async with Watch(http(url), "task:t1") as watch:
            [snapshot] = await take(watch, 1)
            assert (snapshot.type, snapshot.position) == ("snapshot", "e1:1")
            shown: list[int] = []
            for n in range(5):
                feed.commit("task.progress", "task.progress")
                shown += offsets(await take(watch, 2))
                if n % 2:
                    proxy.cut()
                    proxy.heal()
                else:
                    cut(server)
            assert shown == list(range(2, 12))
            assert watch.connections == proxy.refused > 1
        with pytest.raises(NotFound):
            await take(Watch(http(url), "task:nothing"), 1)
        with pytest.raises(Unauthenticated):
            await take(Watch(http(url, token="eve"), "task:t1"), 1)


async def test_a_reset_of_a_stream_is_followed_by_a_snapshot() -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued")
    async with served(feed) as server, NoUpgrades(server.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        watch = Watch(http(url), "task:t1", position="e0:7")
        assert [item.type for item in await take(watch, 2)] == ["reset", "snapshot"]
        await watch.aclose()
        with pytest.raises(FeedReset):
            await take(Watch(http(url), "task:t1", position="e0:7", on_reset="raise"), 1)


class NoStreams(NoUpgrades):
    """A proxy that refuses streams too: with an answer, or by passing nothing of them on."""

    swallows = False

    async def _requests(self, link: Link, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/api/v1/stream" in head and self.swallows:
            self.refused += 1
            link.client.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            link.client.write_eof()
            return
        if b"upgrade: websocket" in head.lower() or b"/api/v1/stream" in head:
            self.refused += 1
            link.client.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            link.server.close()
            return
        link.server.write(head)
        await Proxy._requests(self, link, reader)


@pytest.mark.parametrize("swallows", [False, True])
async def test_each_event_once_through_a_proxy_that_refuses_streams_too(swallows: bool) -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued")
    async with served(feed) as server, NoStreams(server.port) as proxy:
        proxy.swallows = swallows
        async with Watch(http(f"http://127.0.0.1:{proxy.port}"), "task:t1") as watch:
            [snapshot] = await take(watch, 1)
            assert (snapshot.type, snapshot.position) == ("snapshot", "e1:1")
            shown: list[int] = []
            for n in range(5):
                feed.commit("task.progress", "task.progress")
                shown += offsets(await take(watch, 2))
                if n % 2:
                    proxy.cut()
                    proxy.heal()
            assert shown == list(range(2, 12))
            waiting = asyncio.create_task(take(watch, 1))
            await asyncio.sleep(0)
            feed.commit("task.completed")
            [ended] = await waiting
            assert (ended.kind, ended.position) == ("task.completed", "e1:12")
        assert proxy.refused >= 2


@pytest.mark.parametrize("kind", [NoUpgrades, NoStreams])
async def test_a_name_with_a_comma_is_watched_without_a_websocket(kind: type[NoUpgrades]) -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued", task="a,b")
    async with served(feed) as server, kind(server.port) as proxy:
        watch = Watch(http(f"http://127.0.0.1:{proxy.port}"), "task:a,b", position="e1:0")
        [item] = await take(watch, 1)
        assert (item.kind, item.position) == ("task.enqueued", "e1:1")
        await watch.aclose()


async def test_a_reset_and_a_refusal_by_long_poll() -> None:
    feed = ScriptedFeed(oldest=5)
    directory = ScriptedDirectory()
    directory.gone.add("task:nothing")
    async with served(feed, directory=directory) as server, NoStreams(server.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        async with Watch(http(url), "task:t1", position="e1:1") as watch:
            reset, snapshot = await take(watch, 2)
            assert (reset.type, reset.frame["reason"]) == ("reset", "pruned")
            assert (snapshot.type, snapshot.position) == ("snapshot", "e1:5")
            feed.commit("task.started")
            assert [item.position for item in await take(watch, 1)] == ["e1:6"]
        with pytest.raises(NotFound):
            await take(Watch(http(url), "task:nothing"), 1)


async def test_a_long_poll_ends_with_a_whole_snapshot_and_waits_as_long_as_asked() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server:
        client = http(server)._client()
        url = f"{server.http}/api/v1/poll"
        answer = await client.get(url, params={"topics": "task:t1"})
        kinds = [frame["type"] for frame in answer.json()["frames"]]
        assert kinds[:2] == ["subscribed", "snapshot"]
        assert answer.json()["frames"][1]["last"] is True
        feed.commit(*["task.progress"] * 3)
        query = {"topics": "task:t1", "after": "e1:1", "wait_seconds": "30"}
        frames = (await client.get(url, params=query)).json()["frames"]
        assert [f["position"] for f in frames if f["type"] == "task.progress"] == ["e1:2", "e1:3"]
        assert frames[-1]["type"] == "bookmark"
        refused = await client.get(url, params={"topics": ""})
        assert refused.status_code == 422
        assert not server.feed.broadcaster.connections
