"""Wrong frames on connections of the feed: a typed answer, nothing changed, no other subscriber affected."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from itertools import count
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

import httpx2
import pytest
import websockets
from hypothesis import HealthCheck, example, given, settings, strategies as st
from websockets.sync.client import ClientConnection, connect

from holdfast.core import close_codes
from holdfast.gateway.feed.requests import FRAME_BYTES_MAX
from holdfast.gateway.feed.websocket import SUBPROTOCOL
from tests.integration.worker.served import ADMIN, open_site

TASK = "the-task"
LAST = 987_654_321
"""The number of the ping that ends an example."""
SECONDS = 20
TYPED = {
    *(close_codes.MALFORMED, close_codes.UNAUTHENTICATED, close_codes.TOO_LARGE),
    close_codes.TOO_MANY,
}
ANSWERS = {
    *("hello", "subscribed", "unsubscribed", "snapshot", "bookmark", "reset", "error", "pong"),
    *("bye", "authenticated", "task.status_changed"),
}


class Long(NamedTuple):
    """A text with a repeated part."""

    start: str
    part: str
    times: int
    end: str = ""

    def text(self) -> str:
        return self.start + self.part * self.times + self.end


Sent: TypeAlias = str | bytes | Long


def open_socket(url: str) -> ClientConnection:
    return connect(
        url.replace("http", "ws", 1) + "/api/v1/ws",
        additional_headers={"Authorization": f"Bearer {ADMIN}"},
        subprotocols=[websockets.Subprotocol(SUBPROTOCOL)],
        max_size=None,
        proxy=None,
    )


def read(socket: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(socket.recv(timeout=SECONDS))
    return frame


def until(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next frame of a type."""
    while (frame := read(socket))["type"] != kind:
        pass
    return frame


class Site:
    """A server in a thread, with a task and a subscriber of its project."""

    def __init__(self, url: str, socket: ClientConnection) -> None:
        self.url = url
        self._socket = socket
        self.client = httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {ADMIN}"})
        self.client.post("/api/v1/tasks", json={"type": "work", "id": TASK})
        self.before = self.task()
        self._numbers = count()
        self._socket.send('{"type": "subscribe", "channel": "project:default"}')
        until(self._socket, "bookmark")

    def task(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.client.get(f"/api/v1/tasks/{TASK}").json()
        return shown

    def head(self) -> str:
        """The end of the feed, by an answer to the subscriber."""
        self._socket.send('{"type": "ping", "n": 7}')
        return str(until(self._socket, "pong")["head"])

    def check(self, head: str) -> None:
        """Nothing was committed, and the subscriber gets the next change."""
        assert self.head() == head
        assert self.task() == self.before
        id = f"next-{next(self._numbers)}"
        self.client.post("/api/v1/tasks", json={"type": "work", "id": id})
        assert until(self._socket, "task.status_changed")["payload"]["task_id"] == id


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    ready: SimpleQueue[str] = SimpleQueue()
    folder = tmp_path_factory.mktemp("feed-fuzz")
    stops: list[Any] = []

    async def serve() -> None:
        async with open_site(f"sqlite:///{folder}/holdfast.db") as made:
            stop = asyncio.Event()
            stops.extend((asyncio.get_running_loop(), stop))
            ready.put(made.listening.url)
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    url = ready.get(timeout=30)
    with open_socket(url) as socket:
        made = Site(url, socket)
        yield made
        made.client.close()
    loop, stop = stops
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)


channels = st.sampled_from(
    [f"task:{TASK}", "project:default", "project:other", "queue:default", "node:n", "user:ann",
     "fleet", "", ":", "task:", "task:\0", "x:y", "project:" + "p" * 300]
)  # fmt: skip
positions = st.sampled_from(
    ["now", "", ":", "e1:1", "e1:-1", "x:99999999999999999999", "0:0", "e1:1e9", "\ud7ff:1"]
)
names = st.sampled_from(["a", "b", "", "project:default", "\0", "i" * 300])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
    | st.sampled_from([2**63, 2**64, -(2**64), 10**40, 1e308]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
good: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("subscribe")},
        optional={
            "channel": channels,
            "query": st.sampled_from(["", "kind:task.*", "q:(", "status:" * 99, "a OR"]),
            "id": names,
            "position": positions,
            "snapshot": st.booleans(),
            "kinds": st.lists(st.sampled_from(["task.*", "*", "[", ""]), max_size=60),
            "classes": st.lists(st.sampled_from(["critical", "none"]), max_size=2),
            "max_delay_ms": st.sampled_from([-1, 0, 250, 2**40]),
        },
    ),
    st.builds(lambda name: {"type": "unsubscribe", "id": name}, names),
    st.builds(lambda token: {"type": "auth", "token": token}, st.sampled_from(["", "x", ADMIN])),
    st.builds(lambda n: {"type": "ping", "n": n}, st.sampled_from([0, -1, 2**31, 2**63, 10**40])),
)


@st.composite
def wrong(draw: st.DrawFn) -> Sent:
    """A frame, a frame with a field of another type, other JSON, nested or large JSON, text, or bytes."""
    match draw(st.integers(0, 7)):
        case 0:
            return draw(st.binary(max_size=20))
        case 1:
            return draw(st.text(max_size=40))
        case 2:
            return json.dumps(draw(values))
        case 3:
            depth = draw(st.sampled_from([40, 599, 20_000]))
            return Long('{"type": "ping", "n": ', "[", depth, "]" * (depth % 600) + "}")
        case 4:
            extra = draw(st.sampled_from([-1, 0, 1, FRAME_BYTES_MAX]))
            frame = '{"type": "ping"}'
            return Long(frame, " ", FRAME_BYTES_MAX + extra - len(frame))
        case 5:
            given = draw(good)
            return json.dumps({**given, draw(st.sampled_from([*given, "extra"])): draw(values)})
        case _:
            return json.dumps(draw(good))


@st.composite
def sequences(draw: st.DrawFn) -> list[Sent]:
    """Frames, some of them repeated, in any order."""
    frames = draw(st.lists(wrong(), min_size=1, max_size=5))
    repeated = draw(st.lists(st.sampled_from(frames), max_size=3))
    return draw(st.permutations([*frames, *repeated]))


@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sent=sequences())
@example(sent=['{"type": "ping", "n": 100000000000000000000000000000000000000000}'])
@example(sent=['{"type": "unsubscribe", "id": "a"}', '{"type": "subscribe", "channel": "fleet"}'])
def test_the_feed_answers_whatever_it_gets(site: Site, sent: list[Sent]) -> None:
    head = site.head()
    with open_socket(site.url) as socket:
        closed = _exchange(socket, sent)
    if closed is not None:
        assert closed.rcvd is not None, "the connection was cut"
        assert closed.rcvd.code in TYPED, closed
    site.check(head)


def _exchange(socket: ClientConnection, sent: list[Sent]) -> websockets.ConnectionClosed | None:
    """Sends frames and reads the answers. Returns how the server closed, unless it serves on."""
    answer: dict[str, Any] = {}
    try:
        for frame in (*sent, json.dumps({"type": "ping", "n": LAST})):
            socket.send(frame.text() if isinstance(frame, Long) else frame)
        while (answer.get("type"), answer.get("n")) != ("pong", LAST):
            answer = read(socket)
            assert answer["type"] in ANSWERS, answer
            assert answer["type"] != "error" or (answer["code"] and answer["detail"])
    except websockets.ConnectionClosed as error:
        return error
    return None
