"""Three gateways on one PostgreSQL and one Redis: a client goes on at any of them, whatever happens to Redis
or to a gateway in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from redis.asyncio import Redis as Client
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from holdfast.app import TaskQueue
from holdfast.bus.redis import client_for
from holdfast.gateway.feed.redis_cache import stream_of
from holdfast.gateway.feed.websocket import SUBPROTOCOL
from proof.lab.servers import Redis
from tests import feed_support
from tests.integration.gateway.processes import Process, started

ADMIN = "hf_admin_" + "c" * 40
TASKS = 20
RUN = ("task.enqueued", "task.started", "task.completed")


class Site:
    """The gateways, their Redis, and a watcher that remembers what it saw."""

    def __init__(self, folder: Path, dsn: str, redis: Redis, stack: ExitStack) -> None:
        self._options = ("--url", dsn, "--redis", redis.url, "--no-loops")
        self._folder = folder
        self._stack = stack
        self.redis = redis
        with ThreadPoolExecutor() as pool:
            self.gateways = list(pool.map(lambda _: self.start(), range(3)))
        self.position = "now"
        self.offsets: list[int] = []
        self.ended = 0
        self.made: list[str] = []
        self.watched: dict[str, list[str]] = {}

    def start(self) -> Process:
        options = {"HOLDFAST_ADMIN_TOKEN": ADMIN}
        return self._stack.enter_context(started(self._folder, *self._options, **options))

    def enqueue(self, gateway: int) -> None:
        """Enqueues tasks through a gateway."""
        process = self.gateways[gateway]
        with httpx2.Client(base_url=process.url, headers=process.auth) as client:
            for _ in range(TASKS):
                answer = client.post("/api/v1/tasks", json={"type": "mail"})
                assert answer.status_code == 201, answer.text
                self.made.append(answer.json()["task"]["id"])

    @asynccontextmanager
    async def client(self, gateway: int) -> AsyncIterator[feed_support.Client]:
        process = self.gateways[gateway]
        url = process.url.replace("http://", "ws://") + "/api/v1/ws"
        async with connect(
            url,
            additional_headers=process.auth,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,
        ) as socket:
            yield feed_support.Client(socket)

    def forget(self, position: str) -> None:
        self.position, self.watched, self.offsets, self.ended = position, {}, [], 0

    def check(self) -> None:
        """The watcher saw each event of each task once and in order."""
        assert list(self.watched) == self.made
        assert {tuple(kinds) for kinds in self.watched.values()} == {RUN}
        assert self.offsets == sorted(set(self.offsets))

    async def watch(self, gateway: int, *, through: int) -> None:
        """Goes on at a gateway until it has seen the end of this many tasks."""
        async with self.client(gateway) as client:
            await client.subscribe("project:default", position=self.position)
            while self.ended < through:
                frame = await client.next()
                assert frame["type"] != "reset", frame
                if frame["type"] == "task.status_changed":
                    self.watched.setdefault(frame["payload"]["task_id"], []).append(frame["kind"])
                    self.offsets.append(int(frame["position"].partition(":")[2]))
                    self.ended += frame["kind"] == RUN[-1]
                if "position" in frame:
                    self.position = frame["position"]


@pytest.fixture
async def site(tmp_path: Path, pg_dsn: str) -> AsyncIterator[Site]:
    """Beside the gateways, a worker without Redis."""
    queue = TaskQueue(pg_dsn)
    queue.register_handler("mail", _mail)
    await queue.start()
    try:
        with Redis() as redis, ExitStack() as stack:
            yield Site(tmp_path, pg_dsn, redis, stack)
    finally:
        await queue.stop()


async def _mail(_: object) -> None:
    return None


async def watch_all(site: Site) -> None:
    """Watchers at all gateways see the same, also without Redis."""

    async def watch(gateway: int, ready: asyncio.Event) -> list[str]:
        frames: list[str] = []
        async with site.client(gateway) as client:
            await client.subscribe("project:default", position="now")
            await client.until("bookmark")
            ready.set()
            while len(frames) < 2 * TASKS * len(RUN):
                frame = await client.next()
                if frame["type"] == "task.status_changed":
                    frames.append(f"{frame['position']} {frame['kind']}")
        return frames

    ready = [asyncio.Event() for _ in site.gateways]
    watchers = [asyncio.create_task(watch(n, event)) for n, event in enumerate(ready)]
    for event in ready:
        await event.wait()
    await asyncio.to_thread(site.enqueue, 0)
    site.redis.kill()
    await asyncio.to_thread(site.enqueue, 2)
    first, *others = await asyncio.gather(*watchers)
    assert sorted(set(first)) == sorted(first)
    assert others == [first, first]


async def test_a_client_goes_on_at_any_gateway(site: Site) -> None:
    await watch_all(site)
    site.redis.start()
    site.made.clear()
    async with site.client(0) as client:
        hello = await client.next()
    site.position = start = hello["head"]

    await asyncio.to_thread(site.enqueue, 0)
    await site.watch(1, through=TASKS)
    redis: Client = client_for(site.redis.url)
    await redis.flushall()
    await asyncio.to_thread(site.enqueue, 1)
    await site.watch(2, through=2 * TASKS)
    batches = 2
    # A gateway leaves Redis alone for some seconds after a failure, and then fills the cache again.
    while not await redis.exists(stream_of(start.partition(":")[0])):
        batches += 1
        await asyncio.to_thread(site.enqueue, 1)
        await site.watch(2, through=batches * TASKS)

    site.redis.kill()
    await asyncio.to_thread(site.enqueue, 2)
    await site.watch(0, through=(batches + 1) * TASKS)
    site.redis.start()
    site.gateways[1].child.kill()
    site.gateways[1] = site.start()
    await asyncio.to_thread(site.enqueue, 0)
    await site.watch(1, through=(batches + 2) * TASKS)
    await redis.aclose()

    site.check()
    # A gateway that has just started has nothing in memory: it reads the cache or the store.
    site.forget(start)
    await site.watch(1, through=(batches + 2) * TASKS)
    site.check()
