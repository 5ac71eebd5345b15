"""Transactions of a key-value store with fewer connections than it has transactions."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.primitives.kv import AsyncRedisKV, RedisKV
from holdfast.primitives.kv.errors import WatchFailed


def test_reads_in_the_block_of_a_transaction_need_no_other_connection(redis_url: str) -> None:
    together = threading.Barrier(2)
    with RedisKV.connect(redis_url, connections_max=2) as kv:
        kv.set("stock-a", "5")
        kv.set("stock-b", "5")

        def take(key: str) -> None:
            with kv.transaction(watch=[key]) as tx:
                together.wait(10)  # Both have the last connection now.
                left = int(kv.get(key) or "0")
                tx.set(key, str(left - 1))

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(take, ["stock-a", "stock-b"]))
        assert kv.mget(["stock-a", "stock-b"]) == ["4", "4"]


async def test_awaited_reads_in_the_block_of_a_transaction_need_no_other_connection(
    redis_url: str,
) -> None:
    together = asyncio.Barrier(2)
    async with AsyncRedisKV.connect(redis_url, connections_max=2) as kv:
        await kv.mset({"stock-a": "5", "stock-b": "5"})

        async def take(key: str) -> None:
            async with kv.transaction(watch=[key]) as tx:
                await together.wait()
                left = int(await kv.get(key) or "0")
                tx.set(key, str(left - 1))

        await asyncio.gather(take("stock-a"), take("stock-b"))
        assert await kv.mget(["stock-a", "stock-b"]) == ["4", "4"]


async def test_other_tasks_of_a_block_use_other_connections(redis_url: str) -> None:
    async with AsyncRedisKV.connect(redis_url) as kv:
        await kv.set("n", "1")
        async with kv.transaction(watch=["n"]) as tx:
            found = await asyncio.gather(*(kv.get("n") for _ in range(5)))
            tx.set("n", str(len(found)))
        assert await kv.get("n") == "5"


def test_blocks_within_blocks_and_own_writes(redis_url: str) -> None:
    with RedisKV.connect(redis_url) as kv:
        kv.set("n", "1")

        def nested() -> None:
            with kv.transaction(watch=["n"]) as outer:
                outer.set("n", "outer")
                with kv.transaction(watch=["n"]) as inner:
                    assert kv.get("n") == "1"
                    inner.set("n", "inner")
                assert kv.get("n") == "inner"

        with pytest.raises(WatchFailed):
            nested()
        assert kv.get("n") == "inner"


def test_a_connection_that_was_lost_in_the_block_does_not_commit_unwatched(redis_url: str) -> None:
    with RedisKV.connect(redis_url) as kv, RedisKV.connect(redis_url) as other:
        kv.set("n", "1")

        def cut() -> None:
            with kv.transaction(watch=["n"]) as tx:
                session = tx._session
                assert session is not None
                session._connection._sock.close()  # type: ignore[attr-defined]
                with pytest.raises(StoreUnavailable):
                    kv.get("n")
                other.set("n", "2")
                tx.set("n", "3")

        with pytest.raises(StoreUnavailable, match="nothing of it was written"):
            cut()
        assert kv.get("n") == "2"
