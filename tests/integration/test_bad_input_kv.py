"""Wrong calls of the key-value store: the same typed error in memory and live, and nothing is written.

Legal, because Redis takes it: any text as key, field, member, value or pattern (also empty, with NUL or line
breaks), a number of either sign where it counts or names a place, an infinite score.
"""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.primitives.kv import AsyncRedisKV, RedisKV
from holdfast.primitives.kv._memory.twin import AsyncMemoryKV, MemoryKV
from tests.bad_input import Surface
from tests.integration.test_bad_input import check_same, codes_of

KINDS = {
    **dict.fromkeys(("key", "value", "field", "member", "new", "expected"), "kv text"),
    **dict.fromkeys(("keys", "fields", "members", "values"), "kv text"),
    **dict.fromkeys(("match", "compare_and_set.expected"), "kv text?"),
    **dict.fromkeys(("mget.keys", "hmget.fields"), "kv texts"),
    "watch": "kv watch",
    **dict.fromkeys(("mapping", "xadd.fields"), "kv map"),
    "scores": "kv scores",
    "streams": "kv ids",
    **dict.fromkeys(("min", "max"), "kv bound"),
    **dict.fromkeys(("id", "ids", "xrange.start", "end"), "kv id"),
    **dict.fromkeys(("amount", "seconds", "milliseconds", "start", "stop", "place"), "kv int"),
    **dict.fromkeys(("lrem.count", "offset", "count"), "kv int"),
    **dict.fromkeys(("xrange.count", "xread.count"), "kv int?"),
    **dict.fromkeys(("cursor", "maxlen", "zpopmin.count"), "kv length"),
    "xadd.maxlen": "kv length?",
    "scan.count": "kv span",
    **dict.fromkeys(("ex", "px", "block_ms"), "kv span?"),
    **dict.fromkeys(("nx", "xx", "gt", "lt", "ch", "rev", "keepttl", "get"), "flag"),
}
FULL = {"h": "hash", "l": "list", "r": "list", "s": "set", "z": "zset", "x": "stream"}
PLAIN = ("set", "scan", "exists", "expire", "persist", "pexpire", "pttl", "get", "type", "ttl")


def surface(of: type) -> Surface:
    """Each command gets a key with a value of its type."""
    names = [name for name, _ in inspect.getmembers(of, callable) if not name.startswith("_")]
    keys = {name: "plain" if name in PLAIN else FULL.get(name[0], "plain") for name in names}
    good = {
        **{f"{name}.key": key for name, key in keys.items()},
        **dict.fromkeys(("value", "new", "members", "values"), "v"),
        **dict.fromkeys(("field", "fields", "member"), "f"),
        **dict.fromkeys(("amount", "seconds", "milliseconds", "start", "stop", "place"), 1),
        "lrem.count": 1,
        "hmget.fields": ["f"],
        "mget.keys": ["plain"],
        "mapping": {"f": "v"},
        "xadd.fields": {"f": "v"},
        "ids": "1-0",
        "xrange.start": "-",
        "maxlen": 5,
        "min": 0,
        "max": 1,
        "scores": {"f": 1},
        "streams": {"stream": "0"},
        "expected": "no",
    }
    return Surface(of, KINDS, good, leave_out=frozenset({"connect", "execute"}))


def fill(kv: RedisKV) -> None:
    kv.set("plain", "5")
    kv.hset("hash", "f", "5")
    kv.rpush("list", "a", "b", "c")
    kv.sadd("set", "a")
    kv.zadd("zset", {"a": 1})
    kv.xadd("stream", {"f": "v"}, id="1-0")


def state(kv: RedisKV) -> tuple[Any, ...]:
    """Everything that a command could have written."""
    return (
        sorted(kv.scan(count=1_000)[1]),
        *(kv.pttl(key) for key in ("plain", "hash", "list", "set", "zset", "stream")),
        *(kv.get("plain"), kv.hgetall("hash"), kv.lrange("list", 0, -1), kv.smembers("set")),
        *(kv.zrange_withscores("zset", 0, -1), kv.xrange("stream")),
    )


async def test_a_wrong_command_is_a_typed_error_and_writes_nothing(redis_url: str) -> None:
    found: list[Any] = []
    for kv in (RedisKV(), RedisKV.connect(redis_url)):
        with kv:
            fill(kv)
            before = state(kv)
            found.append(await codes_of(surface(RedisKV), kv))
            assert state(kv) == before
    check_same(found)


async def test_a_wrong_awaited_command_is_the_same_error(redis_url: str) -> None:
    with RedisKV.connect(redis_url) as kv:
        fill(kv)
        before = state(kv)
        async with AsyncRedisKV.connect(redis_url) as live:
            found = await codes_of(surface(AsyncRedisKV), live)
        assert state(kv) == before
    local = MemoryKV()
    fill(RedisKV(backend=local))
    memory = AsyncRedisKV(backend=AsyncMemoryKV(local))
    check_same([found, await codes_of(surface(AsyncRedisKV), memory)])
    assert state(RedisKV(backend=local)) == before


@pytest.mark.parametrize("of", [RedisKV, AsyncRedisKV])
async def test_a_wrong_address_is_a_typed_error(of: type) -> None:
    made = SimpleNamespace(connect=of.connect)  # type: ignore[attr-defined]
    kinds = {"url": "url", "timeout_seconds": "number", "connections_max": "whole"}
    check_same([await codes_of(Surface(made, kinds, {"url": "redis://localhost"}), made)])
