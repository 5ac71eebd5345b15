"""Bad input and access of the live feed by WebSocket: a typed answer, and other connections go on."""

from __future__ import annotations

import json
import logging
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.core.rights import Role
from holdfast.gateway.feed.feed import SUBSCRIPTIONS_MAX
from holdfast.gateway.feed.rate import FRAMES_BURST
from tests.feed_support import (
    Door,
    Frame,
    ScriptedFeed,
    person,
    served,
)
from tests.integration.gateway.test_feed_websocket import live

# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", 4400),
        ("[]", 4400),
        ("7", 4400),
        ("{}", 4400),
        ('{"type": 7}', 4400),
        ("[" * 5_000, 4400),
        (b"\x00\x01", 4400),
        ("x" * 70_000, 4413),
    ],
    ids=["broken", "list", "number", "no-type", "type", "deep", "binary", "large"],
)
async def test_what_is_not_a_frame_closes(message: str | bytes, code: int) -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client, server.client() as other:
        await live(other, "task:t1")
        await client.socket.send(message)
        assert await client.close_code() == code
        feed.commit("task.started")
        assert (await other.next())["position"] == "e1:1"


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "dance"},
        {"type": "subscribe"},
        {"type": "subscribe", "channel": 7},
        {"type": "subscribe", "channel": "moon:1"},
        {"type": "subscribe", "channel": "task:t1", "colour": "red"},
        {"type": "subscribe", "channel": "task:t1", "position": "yesterday"},
        {"type": "subscribe", "channel": "task:t1", "position": "e1:-1"},
        {"type": "subscribe", "channel": "task:t1", "classes": ["loud"]},
        {"type": "subscribe", "channel": "task:t1", "kinds": ["*"] * 51},
        {"type": "subscribe", "channel": "task:t1", "max_delay_ms": 1},
        {"type": "subscribe", "channel": "task:t1", "id": ""},
        {"type": "subscribe", "query": "queue:low"},
        {"type": "subscribe", "query": ""},
        {"type": "subscribe", "channel": "task:t1", "query": "type:"},
        {"type": "unsubscribe", "id": "nothing"},
    ],
    ids=str,
)
async def test_a_bad_frame_is_refused_and_the_connection_stays(fields: Frame) -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        await client.next()
        await client.socket.send(json.dumps(fields))
        error = await client.next()
        assert (error["type"], error["code"], error["retryable"]) == (
            "error",
            "invalid-input",
            False,
        )
        await client.send("ping", n=7)
        assert await client.next() == {"type": "pong", "n": 7, "head": "e1:0"}


async def test_an_id_is_used_once() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        await live(client, "task:t1", id="a")
        assert (await client.subscribe("task:t2", id="a"))[-1]["code"] == "invalid-input"
        await client.send("unsubscribe", id="a")
        assert (await client.next())["type"] == "unsubscribed"
        feed.commit("task.started")
        await live(client, "task:t2", id="a")
        feed.commit("task.started", task="t2")
        assert (await client.next())["position"] == "e1:2"


async def test_too_many_subscriptions() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        for number in range(SUBSCRIPTIONS_MAX):
            await client.send("subscribe", channel="task:t1", id=f"s{number}", position="now")
        await client.until("bookmark", count=SUBSCRIPTIONS_MAX)
        error = (await client.subscribe("task:t1", id="more"))[-1]
        assert (error["code"], error["retryable"]) == ("rate-limited", True)


async def test_too_many_frames_close_the_connection() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        with suppress(ConnectionClosed):
            for number in range(int(FRAMES_BURST) * 20):
                await client.send("ping", n=number)
        assert await client.close_code() == 4429


# -- access ----------------------------------------------------------------------------------------


async def test_a_bad_token_is_closed_with_4401() -> None:
    async with served(ScriptedFeed()) as server, server.client("mallory") as client:
        bye = await client.next()
        assert (bye["type"], bye["code"], bye["reason"]) == ("bye", 4401, "unauthenticated")
        assert await client.close_code() == 4401


async def test_another_subprotocol_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with served(ScriptedFeed()) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with server.client(subprotocols=None):
                pass
        assert refused.value.response.status_code == 400
    errors = [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]
    assert errors == []  # a fault of a client is none of the server


async def test_a_full_gateway_asks_to_come_later() -> None:
    async with served(ScriptedFeed(), connections_max=1) as server, server.client() as first:
        await first.next()
        async with server.client() as second:
            assert (await second.next())["code"] == 1013
            assert await second.close_code() == 1013


async def test_a_channel_that_the_role_may_not_read() -> None:
    feed, door = ScriptedFeed(), Door(person("ann", Role.VIEWER, ("default",)))
    async with served(feed, door=door) as server, server.client() as client:
        assert (await client.subscribe("user:bob"))[-1]["code"] == "forbidden"
        assert (await client.subscribe("system:events"))[-1]["code"] == "not-found"
        assert (await client.subscribe("user:ann"))[-1]["type"] == "subscribed"


async def test_a_new_token_of_the_same_principal() -> None:
    feed, door = ScriptedFeed(), Door(person(), person("bob"))
    async with served(feed, door=door) as server, server.client() as client:
        await client.next()
        await client.send("auth", token="ann")
        assert await client.next() == {"type": "authenticated", "principal": "user:ann"}
        await client.send("auth", token="bob")
        assert await client.close_code() == 4401
    assert door.closed.count("ann") == 2


async def test_a_stopped_server_says_when_to_come_back() -> None:
    feed = ScriptedFeed()
    async with served(feed) as server, server.client() as client:
        await client.next()
        await server.feed.stop()
        bye = await client.next()
        assert bye["code"] == 1001
        assert 0 <= bye["retry_after_ms"] <= 5_000
        assert await client.close_code() == 1001
