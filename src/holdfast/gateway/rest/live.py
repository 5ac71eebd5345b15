"""The live feed in the application: `/api/v1/ws`, `/api/v1/stream` and `/api/v1/poll`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from holdfast import __version__
from holdfast.bus.backends import redis_client
from holdfast.core.access import DenialReason, Denied
from holdfast.core.errors import RateLimited
from holdfast.errors import HoldfastError, NotFound
from holdfast.gateway.connections import Door
from holdfast.gateway.feed.broadcaster import Broadcaster
from holdfast.gateway.feed.directory import StoreDirectory
from holdfast.gateway.feed.feed import FeedNames, LiveFeed
from holdfast.gateway.feed.fleet_directory import FleetDirectory
from holdfast.gateway.feed.metrics import FeedMeter
from holdfast.gateway.feed.poll import poll_frames
from holdfast.gateway.feed.ports import FeedSource, Session
from holdfast.gateway.feed.prepare import WithNames, WithOutput
from holdfast.gateway.feed.redis_cache import RedisCache, place_of
from holdfast.gateway.feed.source import StoreSource
from holdfast.gateway.feed.sse import StreamFull, open_stream
from holdfast.gateway.feed.summary import StoreSummary
from holdfast.gateway.feed.websocket import serve_websocket
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.operations.admin import counted
from holdfast.gateway.redacting import redacted
from holdfast.gateway.rest.apis import FEED_POLL, FEED_STREAM, FEED_WEBSOCKET
from holdfast.gateway.rest.presence import ClientGone, no_reader, while_present
from holdfast.gateway.rest.problem import problem_response
from holdfast.queue.queues import QueueView
from holdfast.store.store import Store

Opened: TypeAlias = Callable[[LiveFeed, Request, Session], Awaitable[Response | Denied]]
"""Answers a plain request to the feed."""


class Live:
    """The feed of one gateway. `running` serves it; `extend` adds its paths."""

    def __init__(self, gateway: Gateway) -> None:
        services, parts = gateway.services, gateway.services.parts
        source: FeedSource = StoreSource(services.store)
        self._cache: RedisCache | None = None
        if gateway.settings.redis is not None:
            client = redis_client(gateway.settings.redis)
            file = services.store.file
            place = place_of(None if file is None else Path(file.path))
            source = self._cache = RedisCache(source, client, services.clock, place=place)
        reads = services.live_reads
        broadcaster = Broadcaster(
            source,
            services.bus,
            services.clock,
            prepare=redacted(WithNames(services.names, WithOutput(reads)), services.redaction),
            meter=FeedMeter(services.metrics),
            keep_seconds=parts.settings.current.keep_events,
            ring_events=gateway.settings.ring_events,
        )
        self._request_id = services.request_id
        self.feed = LiveFeed(
            broadcaster,
            Door(gateway),
            StoreDirectory(
                parts.tasks,
                parts.queues,
                parts.nodes,
                services.now,
                summary=StoreSummary(reads, parts.decisions, services.now),
                held=reads.held_by,
                knows_project=reads.knows_project,
                counted=partial(_counted, services.store),
                shown=services.redaction.value,
                registered=services.nodes.find,
                fleet=FleetDirectory(services.fleet, services.now),
            ),
            names=FeedNames(__version__, services.ids.token()),
            flow=gateway.settings.flow,
            buffer_total_bytes=gateway.settings.buffer_total_bytes,
            frame_bytes=gateway.settings.frame_bytes,
            ping_seconds=gateway.settings.ping_seconds,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.feed.start()
        try:
            yield
        finally:
            await self.feed.stop()
            if self._cache is not None:
                await self._cache.close()

    def extend(self, app: FastAPI, _: Gateway) -> None:
        app.router.routes.append(WebSocketRoute(FEED_WEBSOCKET, self._websocket))
        for path, opened in ((FEED_STREAM, open_stream), (FEED_POLL, _polled)):
            serve = partial(self._plain, opened)
            app.router.routes.append(Route(path, serve, methods=["GET"]))

    async def _websocket(self, websocket: WebSocket) -> None:
        await serve_websocket(self.feed, websocket)

    async def _plain(self, opened: Opened, request: Request) -> Response:
        request_id = self._request_id()
        try:
            session = await self.feed.door.connect(request)
        except HoldfastError as error:
            return problem_response(error, request_id)
        try:
            return await self._opened(opened, request, session)
        except HoldfastError as error:
            session.close()
            return problem_response(error, request_id)
        except StreamFull:
            session.close()
            full = RateLimited("the server has too many connections: try again later")
            return problem_response(full, request_id)

    async def _opened(self, opened: Opened, request: Request, session: Session) -> Response:
        answer = await opened(self.feed, request, session)
        if not isinstance(answer, Denied):
            return answer
        if answer.reason is DenialReason.PROJECT:
            raise NotFound("there is no such channel, or you have no access to it")
        raise answer.error()


async def _polled(feed: LiveFeed, request: Request, session: Session) -> Response | Denied:
    try:
        answer = await while_present(request, poll_frames(feed, request, session))
    except ClientGone:
        return no_reader()
    if isinstance(answer, Denied):
        return answer
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(answer), headers=headers, media_type="application/json")


async def _counted(store: Store, queue: QueueView, projects: frozenset[str] | None) -> QueueView:
    return (await counted(store, [queue], projects))[0]
