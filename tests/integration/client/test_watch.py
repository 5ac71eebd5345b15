"""`Watch` against the live feed on real sockets: disconnections, several gateways, resets, refusals."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.websockets import WebSocket

from holdfast.client.watch import Watch
from holdfast.core.errors import Forbidden, Unauthenticated
from holdfast.core.rights import Role
from holdfast.errors import Conflict, FeedReset, InvalidInput, NotFound
from tests.feed_support import (
    Door,
    ScriptedDirectory,
    ScriptedFeed,
    person,
    served,
    serving,
)
from tests.integration.client.watch_support import (
    QuickClock,
    closed,
    cut,
    http,
    offsets,
    refusing,
    take,
)

__all__ = ["closed"]


async def test_snapshot_then_events() -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued")
    async with served(feed) as server, Watch(http(server), "task:t1") as watch:
        [snapshot] = await take(watch, 1)
        assert (snapshot.type, snapshot.position) == ("snapshot", "e1:1")
        assert snapshot.payload["topic"] == "task:t1"
        assert snapshot.at is None
        assert watch.position is None, "the snapshot is not used before the next item is asked for"
        feed.commit("task.started", "task.completed")
        items = await take(watch, 2)
        assert [item.kind for item in items] == ["task.started", "task.completed"]
        assert offsets(items) == [2, 3]
        assert items[0].at == items[0].frame["at"] != ""
        assert watch.position == "e1:2"
        assert watch.state == "live"


async def test_each_event_once_over_many_disconnections_and_two_gateways() -> None:
    feed = ScriptedFeed()
    async with (
        served(feed) as one,
        served(feed) as two,
        Watch(http(one, two), "task:t1", position="e1:0") as watch,
    ):
        feed.commit("task.progress")
        items = await take(watch, 1)
        for number in range(2, 41):
            if number % 4 == 0:
                cut(one)
                cut(two)
            feed.commit("task.progress", "task.progress")
            items += await take(watch, 2)
        assert offsets(items) == list(range(1, 80))
        assert watch.connections > 5


async def test_a_watch_continues_from_a_saved_position() -> None:
    feed = ScriptedFeed()
    feed.commit(*["task.progress"] * 5)
    async with served(feed) as server:
        async with Watch(http(server), "task:t1", position="e1:2") as watch:
            assert offsets(await take(watch, 2)) == [3, 4]
            saved = watch.position
        assert saved == "e1:3", "the last item was shown, but perhaps not used"
        async with Watch(http(server), "task:t1", position=saved) as watch:
            assert offsets(await take(watch, 2)) == [4, 5]


async def test_a_cut_snapshot_comes_again_whole() -> None:
    connections = 0

    async def serve(socket: WebSocket) -> None:
        nonlocal connections
        connections += 1
        await socket.accept(subprotocol="holdfast.v1")
        assert "position" not in await socket.receive_json()
        at = f"e1:{connections}"
        await socket.send_json({"type": "subscribed", "mode": "snapshot", "position": at})
        for part in range(1, 2 if connections == 1 else 4):
            frame = {"type": "snapshot", "position": at, "part": part, "last": part == 3}
            await socket.send_json(frame)
        await socket.close(4500)

    async with refusing(serve) as url, Watch(http(url), "task:t1") as watch:
        parts = await take(watch, 4)
    assert [part.frame["part"] for part in parts] == [1, 1, 2, 3]
    assert [part.position for part in parts] == [None, None, None, "e1:2"]


async def test_a_reset_is_shown_and_a_snapshot_follows() -> None:
    feed = ScriptedFeed()
    feed.commit(*["task.progress"] * 5)
    feed.prune(4)
    async with (
        served(feed) as server,
        Watch(http(server), "task:t1", position="e1:2") as watch,
    ):
        reset, snapshot = await take(watch, 2)
        assert (reset.type, reset.position, reset.frame["reason"]) == ("reset", None, "pruned")
        assert (snapshot.type, snapshot.position) == ("snapshot", "e1:5")
        feed.replace("e2")
        reset, snapshot = await take(watch, 2)
        assert (reset.type, reset.frame["reason"]) == ("reset", "epoch")
        assert (snapshot.type, snapshot.position) == ("snapshot", "e2:0")
        feed.commit("task.started")
        assert [item.position for item in await take(watch, 1)] == ["e2:1"]
        assert watch.connections == 1


async def test_a_reset_is_raised_on_wish() -> None:
    feed = ScriptedFeed()
    feed.commit(*["task.progress"] * 5)
    async with (
        served(feed) as server,
        Watch(http(server), "task:t1", position="other:2", on_reset="raise") as watch,
    ):
        with pytest.raises(FeedReset) as raised:
            await take(watch, 1)
        assert (raised.value.reason, raised.value.head) == ("epoch", "e1:5")


async def test_refusals_are_typed() -> None:
    feed, directory = ScriptedFeed(), ScriptedDirectory()
    directory.gone.add("task:nothing")
    directory.projects["task:foreign"] = "other"
    door = Door(person("ann"), person("bob", Role.VIEWER, ("default",)))
    async with served(feed, door=door, directory=directory) as server:
        with pytest.raises(NotFound):
            await take(Watch(http(server), "task:nothing"), 1)
        with pytest.raises(NotFound):
            await take(Watch(http(server, token="bob"), "task:foreign"), 1)
        with pytest.raises(InvalidInput):
            await take(Watch(http(server), "nonsense"), 1)
        with pytest.raises(InvalidInput):
            await take(Watch(http(server), "task:t1", position="nonsense"), 1)
        with pytest.raises(Unauthenticated):
            await take(Watch(http(server, token="eve"), "task:t1"), 1)


@pytest.mark.parametrize(
    ("code", "error"),
    [(4401, Unauthenticated), (4403, Forbidden), (4400, Conflict), (4409, Conflict)],
)
async def test_a_final_close_ends_the_watch(code: int, error: type[Exception]) -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued")
    async with served(feed) as server, Watch(http(server), "task:t1") as watch:
        await take(watch, 1)
        cut(server, code)
        with pytest.raises(error) as raised:
            await take(watch, 1)
        text = str(raised.value)
        assert "task:t1" in text, "what ended"
        assert "cut by the test" in text, "why"
        assert "position e1:1" in text, "where to go on"
        assert str(code) not in text


async def test_a_refused_token_says_what_to_do() -> None:
    feed, door = ScriptedFeed(), Door(person("ann"))
    async with served(feed, door=door) as server:
        with pytest.raises(Unauthenticated) as raised:
            await take(Watch(http(server, token="eve"), "task:t1"), 1)
    text = str(raised.value)
    assert "watch of task:t1" in text
    assert "unknown, expired or revoked" in text
    assert "ask an administrator for another" in text


async def test_a_refused_subscription_that_may_succeed_later_is_tried_again() -> None:
    answers = iter(
        [
            '{"type":"error","code":"store-unavailable","detail":"away","retryable":true}',
            '{"type":"bye","code":1013,"reason":"full","retry_after_ms":7000}',
            "[]",
            "not json",
        ]
    )

    async def serve(socket: WebSocket) -> None:
        await socket.accept(subprotocol="holdfast.v1")
        await socket.receive_text()
        answer = next(answers, None)
        if answer is None:
            await socket.close(4403, "enough")
            return
        await socket.send_text(answer)
        if "bye" in answer:
            await socket.close(1013)
        else:
            await socket.receive()

    async with refusing(serve) as url:
        client = http(url)
        with pytest.raises(Forbidden):
            await take(Watch(client, "task:t1"), 1)
        assert isinstance(client.clock, QuickClock)
        assert len(client.clock.pauses) == 4
        assert client.clock.pauses[1] == 7.0, "the server named the pause"


async def test_a_gap_and_a_repeat_in_the_frames_reconnect() -> None:
    """A broken relay loses a frame, then repeats one. The watcher shows each event once."""
    positions: list[str] = []

    def event(prev: int, offset: int) -> str:
        return (
            f'{{"type":"task.progress","kind":"task.progress","prev":"e1:{prev}",'
            f'"position":"e1:{offset}","payload":{{}}}}'
        )

    async def serve(socket: WebSocket) -> None:
        await socket.accept(subprotocol="holdfast.v1")
        position = (await socket.receive_json())["position"]
        positions.append(position)
        start = 0 if position == "now" else int(position.rpartition(":")[2])
        await socket.send_json({"type": "subscribed", "mode": "replay", "position": f"e1:{start}"})
        match len(positions):
            case 1:
                frames = [event(0, 1), event(2, 3)]
            case 2:
                frames = [event(1, 2), event(1, 2), event(2, 3)]
            case _:
                frames = [event(start, start + 1), event(start + 1, start + 2)]
        for frame in frames:
            await socket.send_text(frame)
        await socket.receive()

    async with refusing(serve) as url:
        watch = Watch(http(url), "task:t1", snapshot=False)
        assert offsets(await take(watch, 4)) == [1, 2, 3, 4]
        await watch.aclose()
    assert positions == ["now", "e1:1", "e1:2"]


async def test_an_address_without_a_feed_is_an_error() -> None:
    app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("hi"))])
    async with serving(app, ws="websockets-sansio") as port:
        # Starlette answers a WebSocket without a route with 403.
        with pytest.raises(Forbidden):
            await take(Watch(http(f"http://127.0.0.1:{port}"), "task:t1"), 1)
