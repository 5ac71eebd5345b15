"""The live feed by WebSocket, with a real server and real clients."""

from __future__ import annotations

from tests.feed_support import ScriptedFeed, served


async def test_hello_subscribe_snapshot_then_live() -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued")
    async with served(feed) as server, server.client() as client:
        hello = await client.next()
        assert hello["type"] == "hello"
        assert hello["head"] == "e1:1"
        await client.send("subscribe", channel="task:t1")
        subscribed = await client.next()
        assert subscribed == {
            "type": "subscribed",
            "id": "task:t1",
            "channel": "task:t1",
            "mode": "snapshot",
            "position": "e1:1",
        }
        snapshot = await client.next()
        assert (snapshot["type"], snapshot["position"], snapshot["last"]) == (
            "snapshot",
            "e1:1",
            True,
        )
        bookmark = await client.next()
        assert (bookmark["type"], bookmark["live"]) == ("bookmark", True)
        assert (bookmark["prev"], bookmark["position"]) == ("e1:1", "e1:1")
        feed.commit("task.started", node="n1", attempt=1)
        event = await client.next()
        assert (event["type"], event["kind"]) == ("task.status_changed", "task.started")
        assert (event["prev"], event["position"]) == ("e1:1", "e1:2")
        assert event["payload"] == {"task_id": "t1", "to": "running", "node": "n1", "attempt": 1}
