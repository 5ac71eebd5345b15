"""The function of each command, and its number of words (as in Redis)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from holdfast.primitives.kv._memory import (
    compare,
    hashes,
    keys,
    lists,
    sets,
    streams,
    strings,
    zsets,
)
from holdfast.primitives.kv._memory.keyspace import Keyspace
from holdfast.primitives.kv._op import Reply, Words

Run: TypeAlias = Callable[[Keyspace, Words], Reply]

COMMANDS: Final[dict[str, tuple[Run, int]]] = {
    "DEL": (keys.delete, -2),
    "EXISTS": (keys.exists, -2),
    "TYPE": (keys.type_name, 2),
    "EXPIRE": (keys.expire, -3),
    "PEXPIRE": (keys.pexpire, -3),
    "TTL": (keys.ttl, 2),
    "PTTL": (keys.pttl, 2),
    "PERSIST": (keys.persist, 2),
    "SCAN": (keys.scan, -2),
    "GET": (strings.get, 2),
    "SET": (strings.set_, -3),
    "MGET": (strings.mget, -2),
    "MSET": (strings.mset, -3),
    "INCR": (strings.incr, 2),
    "INCRBY": (strings.incrby, 3),
    "DECR": (strings.decr, 2),
    "DECRBY": (strings.decrby, 3),
    "HGET": (hashes.hget, 3),
    "HSET": (hashes.hset, -4),
    "HMSET": (hashes.hmset, -4),
    "HMGET": (hashes.hmget, -3),
    "HGETALL": (hashes.hgetall, 2),
    "HDEL": (hashes.hdel, -3),
    "HEXISTS": (hashes.hexists, 3),
    "HLEN": (hashes.hlen, 2),
    "HINCRBY": (hashes.hincrby, 4),
    "LPUSH": (lists.lpush, -3),
    "RPUSH": (lists.rpush, -3),
    "LPOP": (lists.lpop, 2),
    "RPOP": (lists.rpop, 2),
    "LLEN": (lists.llen, 2),
    "LRANGE": (lists.lrange, 4),
    "LINDEX": (lists.lindex, 3),
    "LTRIM": (lists.ltrim, 4),
    "LREM": (lists.lrem, 4),
    "SADD": (sets.sadd, -3),
    "SREM": (sets.srem, -3),
    "SMEMBERS": (sets.smembers, 2),
    "SISMEMBER": (sets.sismember, 3),
    "SCARD": (sets.scard, 2),
    "ZADD": (zsets.zadd, -4),
    "ZREM": (zsets.zrem, -3),
    "ZSCORE": (zsets.zscore, 3),
    "ZCARD": (zsets.zcard, 2),
    "ZRANGE": (zsets.zrange, -4),
    "ZRANGEBYSCORE": (zsets.zrangebyscore, -4),
    "ZPOPMIN": (zsets.zpopmin, -2),
    "XADD": (streams.xadd, -5),
    "XRANGE": (streams.xrange, -4),
    "XREAD": (streams.xread, -4),
    "XLEN": (streams.xlen, 2),
    "XDEL": (streams.xdel, -3),
    "XTRIM": (streams.xtrim, -4),
    "EVAL": (compare.evaluate, -3),
}


def has_its_words(arity: int, count: int) -> bool:
    """Whether the number of words fits the command; a negative number is a minimum."""
    return count == arity if arity > 0 else count >= -arity
