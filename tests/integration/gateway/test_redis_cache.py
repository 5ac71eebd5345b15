"""The replay cache in Redis: whole pages or none, whatever happens to Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis as Client

from holdfast.bus.redis import client_for
from holdfast.clock import VirtualClock
from holdfast.core.event import Event, Position
from holdfast.gateway.feed.redis_cache import AWAY_SECONDS, RedisCache, place_of, stream_of
from holdfast.store.feed import Page
from proof.lab.servers import Redis
from tests.feed_support import ScriptedFeed


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Client]:
    made = client_for(redis_url)
    yield made
    await made.aclose()


def cached(feed: ScriptedFeed, client: Client, clock: VirtualClock | None = None) -> RedisCache:
    return RedisCache(feed, client, clock or VirtualClock())


async def page(cache: RedisCache, after: int, limit: int = 100) -> list[Event]:
    answer = await cache.read(Position("e1", after), limit)
    await cache.settled()
    assert isinstance(answer, Page)
    assert [event.position.offset for event in answer.events] == list(
        range(after + 1, after + 1 + len(answer.events))
    )
    return answer.events


def filled(count: int) -> ScriptedFeed:
    feed = ScriptedFeed()
    for n in range(count):
        feed.commit("task.enqueued", task=f"t{n}")
    return feed


async def test_old_events_come_from_the_cache(client: Client) -> None:
    feed = filled(10)
    cache = cached(feed, client)
    first = await page(cache, 0)
    pages = feed.pages
    assert await page(cache, 3) == first[3:]
    assert await page(cache, 3, limit=2) == first[3:5]
    assert (feed.pages, cache.hits) == (pages, 2), "the store was not read again"
    other = cached(feed, client)
    await page(other, 8)
    pages = feed.pages
    assert await page(other, 2) == first[2:], "another gateway has filled the cache"
    assert feed.pages == pages


async def test_the_end_of_the_feed_comes_from_the_store(client: Client) -> None:
    feed = filled(2)
    cache = cached(feed, client)
    await page(cache, 0)
    feed.commit("task.started", task="t0")
    assert [event.kind for event in await page(cache, 2)] == ["task.started"]
    assert await page(cache, 3) == []


async def test_a_wiped_cache_costs_a_read(client: Client) -> None:
    feed = filled(10)
    cache = cached(feed, client)
    whole = await page(cache, 0)
    await client.flushall()
    assert await page(cache, 4) == whole[4:]
    assert await page(cache, 6) == whole[6:]
    assert cache.hits == 1, "the first read has filled it again"
    await page(cache, 2)
    assert cache.misses == 2


async def test_a_hole_is_never_served(client: Client) -> None:
    feed = filled(10)
    cache = cached(feed, client)
    whole = await page(cache, 0)
    await client.xdel(stream_of("e1"), "6-0")
    assert await page(cache, 2) == whole[2:5], "up to the hole"
    assert await page(cache, 5) == whole[5:]


async def test_a_page_beyond_the_end_starts_the_cache_over(client: Client) -> None:
    feed = filled(10)
    await page(cached(feed, client), 0, limit=3)
    late = cached(feed, client)
    whole = await page(late, 7)
    assert await client.xlen(stream_of("e1")) == len(whole)
    assert len(await page(late, 1)) == 9


async def test_the_stream_is_bounded(client: Client) -> None:
    feed = filled(3_000)
    cache = RedisCache(feed, client, VirtualClock(), events_max=500)
    for after in range(0, 3_000, 500):
        await page(cache, after, limit=500)
    assert await client.xlen(stream_of("e1")) < 1_000
    assert await client.ttl(stream_of("e1")) > 0


async def test_gateways_at_once_make_one_whole_stream(client: Client) -> None:
    feed = filled(300)
    caches = [cached(feed, client) for _ in range(3)]

    async def follow(cache: RedisCache, step: int) -> None:
        for after in range(0, 300, step):
            await page(cache, after, limit=step)

    await asyncio.gather(
        *(follow(cache, step) for cache, step in zip(caches, (7, 50, 10), strict=True))
    )
    rows: Any = await client.xrange(stream_of("e1"))
    assert [int(row[0].partition(b"-")[0]) for row in rows] == list(range(1, 301))


async def test_without_redis_the_store_serves() -> None:
    feed, clock = filled(5), VirtualClock()
    with Redis() as server:
        client = client_for(server.url)
        cache = cached(feed, client, clock)
        await page(cache, 0)
        server.kill()
        pages = feed.pages
        assert len(await page(cache, 1)) == 4
        assert len(await page(cache, 1)) == 4
        assert feed.pages == pages + 2
        server.start()
        clock.set(clock.now() + AWAY_SECONDS)
        await page(cache, 1)
        assert len(await page(cache, 1)) == 4
        assert cache.hits == 1, "it is used again after a while"
        await client.aclose()


async def test_a_copy_of_a_file_has_another_stream(client: Client, tmp_path: Path) -> None:
    """A copied database has the epoch of its original: neither gets the events of the other."""
    files = [tmp_path / "original.db", tmp_path / "copy.db"]
    feeds = [ScriptedFeed(), ScriptedFeed()]
    caches = []
    for file, feed in zip(files, feeds, strict=True):
        file.touch()
        for n in range(5):
            feed.commit("task.enqueued", task=f"{file.stem}-{n}")
        caches.append(RedisCache(feed, client, VirtualClock(), place=place_of(file)))
    original, copy = caches
    await page(copy, 0)
    await page(original, 0)
    events = await page(original, 2)
    assert original.hits == 1
    assert [event.task_id for event in events] == ["original-2", "original-3", "original-4"]
    assert place_of(files[0]) == place_of(files[0]) != place_of(files[1])
    assert place_of(None) == ""
