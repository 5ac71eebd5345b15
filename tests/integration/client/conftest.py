"""Servers in another thread, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from holdfast.gateway.rest.app import make_app
from tests.feed_support import serving
from tests.integration.gateway.support import open_site


def in_background(serve: Callable[[], AbstractAsyncContextManager[str]]) -> Iterator[str]:
    """Runs a server in another thread, as another process would."""
    ready: list[str] = []
    is_ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        async with serve() as url:
            ready.append(url)
            is_ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert is_ready.wait(60)
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture
def gateway() -> Iterator[str]:
    @asynccontextmanager
    async def serve() -> AsyncIterator[str]:
        async with open_site("sqlite://") as site, serving(make_app(site.gateway)) as port:
            yield f"http://127.0.0.1:{port}"

    yield from in_background(serve)
