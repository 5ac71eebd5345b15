"""Watches of the live feed, and servers whose feed is what a test says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from holdfast.client.http import Http
from holdfast.client.watch import Watch, WatchItem
from holdfast.clock import SystemClock
from holdfast.core.ids import Ids
from tests.feed_support import (
    WAIT_SECONDS,
    Served,
    serving,
)


class QuickClock(SystemClock):
    """Keeps the pauses that were asked for, and makes none."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


opened: list[Http] = []


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    """Closes what the test has opened."""
    yield
    while opened:
        await opened.pop().close()


def http(*servers: Served | str, token: str | None = None) -> Http:
    urls = [server if isinstance(server, str) else server.http for server in servers]
    made = Http(urls, token, QuickClock(), Ids(random.Random(1)))
    opened.append(made)
    return made


async def take(watch: Watch, count: int) -> list[WatchItem]:
    async with asyncio.timeout(WAIT_SECONDS):
        return [await anext(watch) for _ in range(count)]


def offsets(items: list[WatchItem]) -> list[int]:
    return [int(str(item.position).rpartition(":")[2]) for item in items]


def cut(server: Served, code: int = 4408) -> None:
    """Closes every connection of a server."""
    for connection in list(server.feed.broadcaster.connections):
        connection.close(code, "cut by the test")  # type: ignore[attr-defined]


@asynccontextmanager
async def refusing(serve: Callable[[WebSocket], Any]) -> AsyncIterator[str]:
    """A server whose feed is what a test says."""
    app = Starlette(routes=[WebSocketRoute("/api/v1/ws", serve)])
    async with serving(app, ws="websockets-sansio") as port:
        yield f"http://127.0.0.1:{port}"
