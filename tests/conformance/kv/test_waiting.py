"""Reads of streams that wait: the memory backend, Redis and Valkey serve them alike, blocking and async."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.primitives.kv import AsyncRedisKV, Entry, Op, RedisKV
from holdfast.primitives.kv._blocking import BLOCK_MS_MAX
from holdfast.primitives.kv._memory.twin import AsyncMemoryKV, MemoryKV
from holdfast.primitives.kv._op import Reply
from holdfast.primitives.kv.errors import BadCommand
from proof.lab.servers import Redis
from tests.backends import KV

LONG_MS = 20_000
TIMEOUT_SECONDS = 0.2
Found = dict[str, list[Entry]]


def raw(*words: str) -> Op[Reply]:
    return Op(words, lambda reply: reply)


class Store:
    """One store, its fronts, and how many of its readers wait."""

    def __init__(self, url: str | None) -> None:
        self.url = url
        self.twin = MemoryKV()
        self.kv = RedisKV(backend=self.twin) if url is None else RedisKV.connect(url)
        if url is not None:
            self.kv.execute(raw("FLUSHALL"))

    def awaited(self) -> AsyncRedisKV:
        if self.url is None:
            return AsyncRedisKV(backend=AsyncMemoryKV(self.twin))
        return AsyncRedisKV.connect(self.url)

    def blocking(self) -> RedisKV:
        """With a shorter timeout for an answer than a read waits."""
        if self.url is None:
            return self.kv
        return RedisKV.connect(self.url, timeout_seconds=TIMEOUT_SECONDS)

    def waiting(self) -> int:
        if self.url is None:
            return len(self.twin._readers.waiting)
        said = self.kv.execute(raw("INFO", "clients"))
        found = re.search(r"blocked_clients:(\d+)", str(said))
        assert found is not None
        return int(found[1])

    def until_waiting(self, count: int) -> None:
        while self.waiting() != count:
            pass


@pytest.fixture(params=KV)
def store(request: pytest.FixtureRequest, redis_url: str, valkey: Redis) -> Iterator[Store]:
    made = Store({"memory": None, "redis": redis_url, "valkey": valkey.url}[request.param])
    with made.kv:
        yield made


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


@pytest.fixture
def begin(store: Store, threads: ThreadPoolExecutor) -> Callable[..., Future[Found]]:
    """A read in its own thread, which waits when this returns."""

    def read(streams: dict[str, str], count: int | None = None) -> Future[Found]:
        before = store.waiting()
        reading = threads.submit(store.kv.xread, streams, count=count, block_ms=LONG_MS)
        store.until_waiting(before + 1)
        return reading

    return read


def entry(id: str, **fields: str) -> Entry:
    return Entry(id, fields or {"f": "v"})


def add(store: Store, id: str, key: str = "s") -> None:
    store.kv.xadd(key, {"f": "v"}, id=id)


def test_a_reader_gets_what_is_added(store: Store, begin: Callable[..., Future[Found]]) -> None:
    add(store, "1-1")
    last, after, missing = begin({"s": "$"}), begin({"s": "1-1"}), begin({"s": "1-1", "t": "$"})
    add(store, "2-1")
    expected = {"s": [entry("2-1")]}
    assert (last.result(), after.result(), missing.result()) == (expected, expected, expected)
    other = begin({"s": "$", "t": "$"})
    add(store, "5-1", "t")
    assert other.result() == {"t": [entry("5-1")]}
    assert store.waiting() == 0


def test_a_read_does_not_wait_for_existing_entries(store: Store) -> None:
    add(store, "1-1")
    add(store, "2-1")
    assert store.kv.xread({"s": "0"}, count=1, block_ms=LONG_MS) == {"s": [entry("1-1")]}
    assert store.kv.xread({"s": "1-1", "t": "$"}, block_ms=LONG_MS) == {"s": [entry("2-1")]}


def test_a_wait_ends(store: Store) -> None:
    add(store, "1-1")
    assert store.kv.xread({"s": "$", "t": "0"}, block_ms=1) == {}
    assert store.waiting() == 0


def test_a_wait_may_be_longer_than_an_answer_takes(store: Store) -> None:
    with store.blocking() as kv:
        for _ in range(2):  # The second one uses the same connection.
            assert kv.xread({"s": "$"}, block_ms=int(TIMEOUT_SECONDS * 2_000)) == {}
        assert kv.xlen("s") == 0


def test_a_transaction_is_read_as_one_step(
    store: Store, begin: Callable[..., Future[Found]]
) -> None:
    reading = begin({"s": "$"})
    with store.kv.transaction() as tx:
        tx.xadd("s", {"f": "v"}, id="1-1")
        tx.xdel("s", "1-1")
    assert store.waiting() == 1
    with store.kv.transaction() as tx:
        tx.xadd("s", {"f": "v"}, id="2-1")
        tx.xadd("s", {"f": "v"}, id="2-2")
    assert reading.result() == {"s": [entry("2-1"), entry("2-2")]}


def test_a_transaction_does_not_wait(store: Store) -> None:
    with store.kv.transaction() as tx:
        nothing = tx.xread({"s": "$"}, block_ms=LONG_MS)
        tx.xadd("s", {"f": "v"}, id="1-1")
        something = tx.xread({"s": "0"}, block_ms=LONG_MS)
    assert (nothing.value, something.value) == ({}, {"s": [entry("1-1")]})


def test_a_reader_gets_an_entry_that_the_next_command_removes(
    store: Store, begin: Callable[..., Future[Found]]
) -> None:
    readers = [begin({"s": "$"}) for _ in range(3)]
    add(store, "1-1")
    store.kv.delete("s")
    assert [reader.result() for reader in readers] == [{"s": [entry("1-1")]}] * 3


def test_another_type_does_not_end_the_wait(
    store: Store, begin: Callable[..., Future[Found]]
) -> None:
    reading = begin({"s": "$"})
    store.kv.set("s", "no stream")
    assert store.waiting() == 1
    store.kv.delete("s")
    add(store, "1-1")
    assert reading.result() == {"s": [entry("1-1")]}


async def test_an_awaited_reader_gets_what_a_thread_adds(store: Store) -> None:
    async with store.awaited() as kv:
        reading = asyncio.create_task(kv.xread({"s": "$"}, block_ms=LONG_MS))
        await asyncio.to_thread(store.until_waiting, 1)
        await asyncio.to_thread(add, store, "1-1")
        assert await reading == {"s": [entry("1-1")]}
        assert await kv.xread({"s": "$"}, block_ms=1) == {}
        assert await kv.xread({"s": "0"}, block_ms=1) == {"s": [entry("1-1")]}


async def test_an_awaited_wait_may_be_longer_than_an_answer_takes(store: Store) -> None:
    made = store.awaited()
    if store.url is not None:
        made = AsyncRedisKV.connect(store.url, timeout_seconds=TIMEOUT_SECONDS)
    async with made as kv:
        for _ in range(2):
            assert await kv.xread({"s": "$"}, block_ms=int(TIMEOUT_SECONDS * 2_000)) == {}
        assert await kv.xlen("s") == 0


async def test_a_cancelled_reader_is_removed(store: Store) -> None:
    async with store.awaited() as kv:
        reading = asyncio.create_task(kv.xread({"s": "$"}, block_ms=LONG_MS))
        await asyncio.to_thread(store.until_waiting, 1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.to_thread(store.until_waiting, 0)
        assert await kv.xadd("s", {"f": "v"}, id="1-1") == "1-1"
        assert await kv.xlen("s") == 1


def test_a_server_that_goes_away_ends_the_wait(redis_url: str, threads: ThreadPoolExecutor) -> None:
    store = Store(redis_url)
    with store.kv:
        reading = threads.submit(store.kv.xread, {"s": "$"}, block_ms=LONG_MS)
        store.until_waiting(1)
        store.kv.execute(raw("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
        assert isinstance(reading.exception(), StoreUnavailable)


@pytest.mark.parametrize("block", ["0", str(BLOCK_MS_MAX + 1), "9" * 5_000])
def test_a_wait_without_a_limit_is_refused(store: Store, block: str) -> None:
    with store.kv.transaction() as tx:
        with pytest.raises(BadCommand, match="block_ms"):
            store.kv.execute(raw("XREAD", "BLOCK", block, "STREAMS", "s", "$"))
        written = tx.set("a", "1")
    assert written.value
