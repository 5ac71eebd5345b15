"""Resets of the live feed by WebSocket, each reason with its situation."""

from __future__ import annotations

import pytest

from tests.feed_support import (
    Door,
    ScriptedDirectory,
    ScriptedFeed,
    person,
    served,
)
from tests.integration.gateway.test_feed_websocket import check_chain, live


async def test_reset_epoch() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        frame = (await client.subscribe("task:t1", position="other:0"))[-1]
        assert (frame["type"], frame["reason"], frame["position"]) == ("reset", "epoch", "e1:0")
        await live(client, "task:t1")
        feed.replace("e2")
        frame = (await client.until("reset"))[-1]
        assert (frame["reason"], frame["position"]) == ("epoch", "e2:0")
        assert await live(client, "task:t1") == "e2:0"
        feed.commit("task.started")
        assert (await client.next())["position"] == "e2:1"


@pytest.mark.parametrize("channel", ["project:default", "task:t1"])
async def test_reset_pruned(channel: str) -> None:
    feed = ScriptedFeed()
    async with served(feed, ring_events=2) as server, server.client() as client:
        feed.commit(*["task.started"] * 9)
        await server.feed.broadcaster.refresh()
        feed.prune(5)
        await client.subscribe(channel, position="e1:4")
        frame = (await client.until("reset"))[-1]
        assert (frame["type"], frame["reason"]) == ("reset", "pruned")
        subscribed = (await client.subscribe(channel, position="e1:5"))[-1]
        assert check_chain(await client.until("bookmark"), subscribed["position"]) == [6, 7, 8, 9]


async def test_reset_ahead() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        frame = (await client.subscribe("task:t1", position="e1:1"))[-1]
        assert (frame["type"], frame["reason"]) == ("reset", "ahead")


async def test_reset_revoked_and_gone_at_a_token_event() -> None:
    feed, directory, door = ScriptedFeed(), ScriptedDirectory(), Door(person())
    async with served(feed, directory=directory, door=door) as server, server.client() as client:
        for channel in ("task:t1", "task:t2", "task:t3"):
            await live(client, channel)
        door.people["ann"] = person(projects=("web",))
        directory.projects["task:t3"] = "web"
        directory.gone.add("task:t2")
        feed.commit("token.changed")
        resets = {frame["id"]: frame["reason"] for frame in await client.until("reset", count=2)}
        assert resets == {"task:t1": "revoked", "task:t2": "gone"}
        feed.commit("task.started", task="t1")
        await server.feed.broadcaster.refresh()
        await client.send("ping", n=1)
        assert {frame["type"] for frame in await client.until("pong")} <= {"bookmark", "pong"}


async def test_a_revoked_token_closes_the_connection() -> None:
    feed, door = ScriptedFeed(), Door(person(), person("bob"))
    async with (
        served(feed, door=door) as server,
        server.client() as client,
        server.client("bob") as other,
    ):
        await live(client, "task:t1")
        await live(other, "task:t1")
        del door.people["ann"]
        feed.commit("token.revoked")
        assert (await client.until("bye"))[-1]["code"] == 4401
        assert await client.close_code() == 4401
        feed.commit("task.started")
        assert (await other.next())["position"] == "e1:2"


async def test_a_deleted_object_and_a_foreign_one_are_answered_alike() -> None:
    feed, directory = ScriptedFeed(), ScriptedDirectory()
    directory.gone.add("task:t1")
    directory.projects["task:t2"] = "secret"
    door = Door(person(projects=("default",)))
    async with served(feed, directory=directory, door=door) as server, server.client() as client:
        answers = []
        for channel in ("task:t1", "task:t2"):
            resumed = (await client.subscribe(channel, position="e1:0"))[-1]
            fresh = (await client.subscribe(channel))[-1]
            answers.append((resumed["type"], resumed["reason"], fresh["type"], fresh["code"]))
        assert answers == [("reset", "gone", "error", "not-found")] * 2
