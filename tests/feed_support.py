"""A feed that a test writes, and a real server with the live feed on it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from holdfast.bus.local import LocalBus
from holdfast.bus.port import FEED
from holdfast.clock import Clock, SystemClock
from holdfast.core.access import ALL_PROJECTS, Denied, Principal
from holdfast.core.channel import Channel, ChannelKind, ChannelObject
from holdfast.core.errors import Unauthenticated
from holdfast.core.event import Event, Position
from holdfast.core.rights import PrincipalKind, Role
from holdfast.core.subscription import FeedBounds, reset_reason
from holdfast.errors import FeedReset, HoldfastError, StoreUnavailable
from holdfast.gateway.feed.broadcaster import Broadcaster
from holdfast.gateway.feed.feed import LiveFeed
from holdfast.gateway.feed.poll import poll_frames
from holdfast.gateway.feed.ports import Session
from holdfast.gateway.feed.protocol import FeedProtocol
from holdfast.gateway.feed.sse import open_stream
from holdfast.gateway.feed.websocket import SUBPROTOCOL, serve_websocket
from holdfast.store.feed import Page, Reset, Skimmed
from tests import async_messages

Frame = dict[str, Any]
WAIT_SECONDS = 20.0
"""A wait of a test that fails. None of them is reached in a test that passes."""


def person(
    name: str = "ann", role: Role = Role.VIEWER, projects: tuple[str, ...] = (ALL_PROJECTS,)
) -> Principal:
    return Principal(f"user:{name}", PrincipalKind.USER, frozenset({role}), frozenset(projects))


class ScriptedFeed:
    """A `FeedSource` in memory. Each call of `commit` is one transaction."""

    def __init__(self, epoch: str = "e1", oldest: int = 0) -> None:
        self.epoch = epoch
        self.oldest = oldest
        self.events: list[Event] = []
        self.bus = LocalBus()
        self.is_away = False
        self.seconds = 0.0
        """The age of the events."""
        self.pages = 0
        self.histories = 0
        self.skims = 0

    @property
    def head(self) -> int:
        return self.oldest + len(self.events)

    def at(self, offset: int) -> str:
        return f"{self.epoch}:{offset}"

    def commit(
        self, *kinds: str, task: str = "t1", hint: bool = True, project: str = "", **data: Any
    ) -> None:
        for kind in kinds:
            position = Position(self.epoch, self.head + 1)
            is_task = kind.startswith(("task.", "checkpoint."))
            self.events.append(
                Event(
                    position,
                    kind,
                    1_800_000_000.0,
                    task if is_task else "",
                    "",
                    dict(data),
                    project,
                )
            )
        if hint:
            self.bus.publish(FEED)

    def prune(self, through: int) -> None:
        self.events = self.events[through - self.oldest :]
        self.oldest = through

    def replace(self, epoch: str) -> None:
        self.epoch, self.events, self.oldest = epoch, [], 0
        self.bus.publish(FEED)

    async def bounds(self) -> FeedBounds:
        return FeedBounds(Position(self.epoch, self.oldest), Position(self.epoch, self.head))

    async def read(self, after: Position, limit: int) -> Page | Reset:
        if self.is_away:
            raise StoreUnavailable("the store is away")
        self.pages += 1
        bounds = await self.bounds()
        reason = reset_reason(after, bounds)
        if reason is not None:
            from holdfast.store.feed import ResetReason

            return Reset(ResetReason(reason.value), bounds.oldest, bounds.head)
        first = after.offset - self.oldest
        events = self.events[first : first + limit]
        return Page(events, events[-1].position if events else after, bounds.head)

    async def skim(self, after: Position, limit: int, prefixes: Collection[str]) -> Skimmed | Reset:
        page = await self.read(after, limit)
        self.pages -= 1
        if isinstance(page, Reset):
            return page
        self.skims += 1
        found = {p for p in prefixes for event in page.events if event.kind.startswith(p)}
        return Skimmed(page.position, page.head, frozenset(found))

    async def history(self, task_id: str, *, after: int, through: int) -> list[Event] | None:
        self.histories += 1
        return [
            event
            for event in self.events
            if event.task_id == task_id and after < event.position.offset <= through
        ]

    def now(self) -> float:
        return 1_800_000_000.0 + self.seconds


class ScriptedDirectory:
    """A `Directory` in memory: every task exists until it is removed."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.projects: dict[str, str] = {}
        self.parts = 1

    async def find(self, channel: Channel, principal: Principal) -> ChannelObject | None:
        del principal
        if channel.topic in self.gone:
            return None
        is_shared = channel.kind in {ChannelKind.QUEUE, ChannelKind.USER, ChannelKind.SYSTEM}
        project = ALL_PROJECTS if is_shared else self.projects.get(channel.topic, "default")
        if channel.kind is ChannelKind.PROJECT:
            project = channel.name
        return ChannelObject(project, channel.topic)

    async def snapshot(
        self, channel: Channel, found: ChannelObject, principal: Principal
    ) -> AsyncIterator[Frame]:
        del principal
        for part in range(self.parts):
            yield {"topic": found.topic, "kind": channel.kind.value, "part": part}


class Badge:
    """A `Session` that a test can revoke or change."""

    def __init__(self, door: Door, name: str) -> None:
        self._door = door
        self.name = name

    @property
    def principal(self) -> Principal:
        return self._door.people[self.name]

    async def renewed(self) -> Session | None:
        return self if self.name in self._door.people else None

    def close(self) -> None:
        self._door.closed.append(self.name)


class Door:
    """A `FeedDoor`: the token is the name of the person."""

    def __init__(self, *people: Principal) -> None:
        self.people = {each.name.partition(":")[2]: each for each in people or (person(),)}
        self.closed: list[str] = []

    async def connect(self, connection: HTTPConnection) -> Session:
        return await self.by_token(
            connection.headers.get("authorization", "").removeprefix("Bearer ")
        )

    async def by_token(self, token: str) -> Session:
        name = token or "ann"
        if name not in self.people:
            raise Unauthenticated("no such token")
        return Badge(self, name)


def app_of(feed: LiveFeed) -> Starlette:
    """The routes of the feed, as the server has them."""

    async def websocket(socket: WebSocket) -> None:
        await serve_websocket(feed, socket)

    async def answer(request: Request, serve: Callable[..., Any]) -> Response:
        try:
            session = await feed.door.connect(request)
            reply = await serve(feed, request, session)
        except FeedReset as error:
            return JSONResponse({"code": error.code, "reason": error.reason}, error.http_status)
        except HoldfastError as error:
            return JSONResponse({"code": error.code, "detail": str(error)}, error.http_status)
        if isinstance(reply, Denied):
            return JSONResponse({"code": reply.code}, 404 if reply.code == "not-found" else 403)
        if isinstance(reply, Response):
            return reply
        return Response(msgspec.json.encode(reply), media_type="application/json")

    async def stream(request: Request) -> Response:
        return await answer(request, open_stream)

    async def poll(request: Request) -> Response:
        return await answer(request, poll_frames)

    return Starlette(
        routes=[
            WebSocketRoute("/api/v1/ws", websocket),
            Route("/api/v1/stream", stream),
            Route("/api/v1/poll", poll),
        ]
    )


class Served:
    """A running server."""

    def __init__(self, port: int, feed: LiveFeed) -> None:
        self.port = port
        self.feed = feed
        self.http = f"http://127.0.0.1:{port}"

    @asynccontextmanager
    async def client(self, token: str = "", **options: Any) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        options.setdefault("subprotocols", [SUBPROTOCOL])
        async with connect(
            f"ws://127.0.0.1:{self.port}/api/v1/ws",
            additional_headers=headers,
            compression=None,
            **options,
        ) as socket:
            yield Client(socket)


class Client:
    """A client of the WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, frame: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": frame, **fields}))

    async def next(self) -> Frame:
        async with asyncio.timeout(WAIT_SECONDS):
            frame: Frame = json.loads(await self.socket.recv())
        async_messages.check("feed", frame)
        return frame

    async def until(self, *types: str, count: int = 1) -> list[Frame]:
        """All frames up to the `count`-th of these types."""
        frames: list[Frame] = []
        while count:
            frames.append(await self.next())
            count -= frames[-1]["type"] in types
        return frames

    async def subscribe(self, channel: str | None, **fields: Any) -> list[Frame]:
        """Subscribes, and returns the frames until it is answered."""
        named = {} if channel is None else {"channel": channel}
        await self.send("subscribe", **named, **fields)
        return await self.until("subscribed", "error", "reset")

    async def close_code(self) -> int | None:
        """Reads until the server has closed."""
        async with asyncio.timeout(WAIT_SECONDS):
            with suppress(ConnectionClosed):
                async for _ in self.socket:
                    pass
            await self.socket.wait_closed()
        return self.socket.close_code


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[int]:
    """A uvicorn server of this process. Yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        ws=options.pop("ws", FeedProtocol),
        ws_per_message_deflate=False,
        ws_max_size=65_536,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=1,
        **options,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listener.close()


@asynccontextmanager
async def served(
    source: Any,
    *,
    bus: Any = None,
    door: Door | None = None,
    directory: Any = None,
    clock: Clock | None = None,
    ring_events: int = 100_000,
    ws: Any = FeedProtocol,
    **options: Any,
) -> AsyncIterator[Served]:
    """The live feed of a source on a real server."""
    broadcaster = Broadcaster(
        source, bus or source.bus, clock or SystemClock(), ring_events=ring_events
    )
    feed = LiveFeed(broadcaster, door or Door(), directory or ScriptedDirectory(), **options)
    await feed.start()
    try:
        async with serving(app_of(feed), ws=ws) as port:
            yield Served(port, feed)
    finally:
        await feed.stop()
