"""Commands that block until they are answered.

Written by scripts/kv_fronts.py from the signatures in `commands/`.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Literal, overload

from holdfast.primitives.kv import commands
from holdfast.primitives.kv.backend import KvBackend
from holdfast.primitives.kv.op import Entry


class SyncCommands:
    """Every command as a method."""

    __slots__ = ("_backend",)

    def __init__(self, backend: KvBackend) -> None:
        self._backend = backend

    def get(self, key: str) -> str | None:
        """The value, or None."""
        return self._backend.execute(commands.strings.get(key))

    @overload
    def set(
        self,
        key: str,
        value: str,
        ex: int | None = None,
        *,
        px: int | None = None,
        nx: bool = False,
        xx: bool = False,
        keepttl: bool = False,
        get: Literal[False] = False,
    ) -> bool: ...

    @overload
    def set(
        self,
        key: str,
        value: str,
        ex: int | None = None,
        *,
        px: int | None = None,
        nx: bool = False,
        xx: bool = False,
        keepttl: bool = False,
        get: Literal[True],
    ) -> str | None: ...

    @overload
    def set(
        self,
        key: str,
        value: str,
        ex: int | None = None,
        *,
        px: int | None = None,
        nx: bool = False,
        xx: bool = False,
        keepttl: bool = False,
        get: bool,
    ) -> bool | str | None: ...

    def set(
        self,
        key: str,
        value: str,
        ex: int | None = None,
        *,
        px: int | None = None,
        nx: bool = False,
        xx: bool = False,
        keepttl: bool = False,
        get: bool = False,
    ) -> bool | str | None:
        """Write a value, whatever was there; True when it was written. `ex` seconds or `px` milliseconds to
        live (none: for ever, unless `keepttl`); `nx` only a new key, `xx` only an old one; `get` answers
        with the value before instead."""
        return self._backend.execute(
            commands.strings.set(key, value, ex, px=px, nx=nx, xx=xx, keepttl=keepttl, get=get)
        )

    def mget(self, keys: list[str]) -> list[str | None]:
        """The values of keys, in their order; None for one that is missing or not a plain value."""
        return self._backend.execute(commands.strings.mget(keys))

    def mset(self, mapping: Mapping[str, str]) -> None:
        """Write several values at once."""
        return self._backend.execute(commands.strings.mset(mapping))

    def incr(self, key: str) -> int:
        """Add one to a counter, which starts at 0; its new value."""
        return self._backend.execute(commands.strings.incr(key))

    def incrby(self, key: str, amount: int) -> int:
        """Add to a counter; its new value."""
        return self._backend.execute(commands.strings.incrby(key, amount))

    def decr(self, key: str) -> int:
        """Take one from a counter; its new value."""
        return self._backend.execute(commands.strings.decr(key))

    def decrby(self, key: str, amount: int) -> int:
        """Take from a counter; its new value."""
        return self._backend.execute(commands.strings.decrby(key, amount))

    def delete(self, *keys: str) -> int:
        """Remove keys; how many there were."""
        return self._backend.execute(commands.keys.delete(*keys))

    def exists(self, key: str) -> bool:
        """Whether there is such a key."""
        return self._backend.execute(commands.keys.exists(key))

    def type(self, key: str) -> str:
        """`string`, `hash`, `list`, `set`, `zset`, `stream`, or `none`."""
        return self._backend.execute(commands.keys.type(key))

    def expire(self, key: str, seconds: int) -> bool:
        """Let the key end in so many seconds (at once when not positive); False when there is none."""
        return self._backend.execute(commands.keys.expire(key, seconds))

    def pexpire(self, key: str, milliseconds: int) -> bool:
        """Let the key end in so many milliseconds; False when there is none."""
        return self._backend.execute(commands.keys.pexpire(key, milliseconds))

    def ttl(self, key: str) -> int:
        """Seconds that are left, rounded; -1 when it never ends, -2 when there is no such key."""
        return self._backend.execute(commands.keys.ttl(key))

    def pttl(self, key: str) -> int:
        """Milliseconds that are left; -1 when it never ends, -2 when there is no such key."""
        return self._backend.execute(commands.keys.pttl(key))

    def persist(self, key: str) -> bool:
        """Let the key never end; False when it already does not, or there is none."""
        return self._backend.execute(commands.keys.persist(key))

    def scan(
        self, cursor: int = 0, match: str | None = None, count: int = 10
    ) -> tuple[int, list[str]]:
        """A page of keys and the next cursor, which is 0 at the end. A key that was there all the time is
        found; one that came or went meanwhile may be, and on a live Redis a key may come twice."""
        return self._backend.execute(commands.keys.scan(cursor, match, count))

    def hget(self, key: str, field: str) -> str | None:
        """The value of a field, or None."""
        return self._backend.execute(commands.hashes.hget(key, field))

    def hset(self, key: str, field: str, value: str) -> int:
        """Write a field; 1 when it is new, 0 when it was there."""
        return self._backend.execute(commands.hashes.hset(key, field, value))

    def hmget(self, key: str, fields: list[str]) -> list[str | None]:
        """The values of fields, in their order."""
        return self._backend.execute(commands.hashes.hmget(key, fields))

    def hmset(self, key: str, mapping: Mapping[str, str]) -> None:
        """Write several fields at once."""
        return self._backend.execute(commands.hashes.hmset(key, mapping))

    def hgetall(self, key: str) -> dict[str, str]:
        """All fields; empty when there is no such key."""
        return self._backend.execute(commands.hashes.hgetall(key))

    def hdel(self, key: str, *fields: str) -> int:
        """Remove fields; how many there were. A hash without fields is gone."""
        return self._backend.execute(commands.hashes.hdel(key, *fields))

    def hexists(self, key: str, field: str) -> bool:
        """Whether there is such a field."""
        return self._backend.execute(commands.hashes.hexists(key, field))

    def hlen(self, key: str) -> int:
        """How many fields there are."""
        return self._backend.execute(commands.hashes.hlen(key))

    def hincrby(self, key: str, field: str, amount: int) -> int:
        """Add to a counter in a field; its new value."""
        return self._backend.execute(commands.hashes.hincrby(key, field, amount))

    def lpush(self, key: str, *values: str) -> int:
        """Put values before the first, one after the other; the new length."""
        return self._backend.execute(commands.lists.lpush(key, *values))

    def rpush(self, key: str, *values: str) -> int:
        """Put values after the last; the new length."""
        return self._backend.execute(commands.lists.rpush(key, *values))

    def lpop(self, key: str) -> str | None:
        """Take the first value; None when there is none. An empty list is gone."""
        return self._backend.execute(commands.lists.lpop(key))

    def rpop(self, key: str) -> str | None:
        """Take the last value; None when there is none."""
        return self._backend.execute(commands.lists.rpop(key))

    def llen(self, key: str) -> int:
        """How many values there are."""
        return self._backend.execute(commands.lists.llen(key))

    def lrange(self, key: str, start: int, stop: int) -> list[str]:
        """The values from place `start` to place `stop`, both included."""
        return self._backend.execute(commands.lists.lrange(key, start, stop))

    def lindex(self, key: str, place: int) -> str | None:
        """The value at a place, or None."""
        return self._backend.execute(commands.lists.lindex(key, place))

    def ltrim(self, key: str, start: int, stop: int) -> None:
        """Keep only the values from place `start` to place `stop`."""
        return self._backend.execute(commands.lists.ltrim(key, start, stop))

    def lrem(self, key: str, count: int, value: str) -> int:
        """Remove the value where it first occurs `count` times, from the end when negative, everywhere when
        0; how many were removed."""
        return self._backend.execute(commands.lists.lrem(key, count, value))

    def sadd(self, key: str, *members: str) -> int:
        """Put members in; how many are new."""
        return self._backend.execute(commands.sets.sadd(key, *members))

    def srem(self, key: str, *members: str) -> int:
        """Take members out; how many there were. An empty set is gone."""
        return self._backend.execute(commands.sets.srem(key, *members))

    def smembers(self, key: str) -> builtins.set[str]:
        """All members."""
        return self._backend.execute(commands.sets.smembers(key))

    def sismember(self, key: str, member: str) -> bool:
        """Whether it is a member."""
        return self._backend.execute(commands.sets.sismember(key, member))

    def scard(self, key: str) -> int:
        """How many members there are."""
        return self._backend.execute(commands.sets.scard(key))

    def zadd(
        self,
        key: str,
        scores: Mapping[str, float],
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
        ch: bool = False,
    ) -> int:
        """Give members their scores; how many are new (`ch`: or changed). `nx` only new members, `xx` only
        old ones, `gt`/`lt` change a score only upwards/downwards."""
        return self._backend.execute(
            commands.zsets.zadd(key, scores, nx=nx, xx=xx, gt=gt, lt=lt, ch=ch)
        )

    def zrem(self, key: str, *members: str) -> int:
        """Take members out; how many there were."""
        return self._backend.execute(commands.zsets.zrem(key, *members))

    def zscore(self, key: str, member: str) -> float | None:
        """The score of a member, or None."""
        return self._backend.execute(commands.zsets.zscore(key, member))

    def zcard(self, key: str) -> int:
        """How many members there are."""
        return self._backend.execute(commands.zsets.zcard(key))

    def zrange(self, key: str, start: int, stop: int, *, rev: bool = False) -> list[str]:
        """The members from place `start` to place `stop`, both included; `rev`: from the highest down."""
        return self._backend.execute(commands.zsets.zrange(key, start, stop, rev=rev))

    def zrange_withscores(
        self, key: str, start: int, stop: int, *, rev: bool = False
    ) -> list[tuple[str, float]]:
        """The same with the scores."""
        return self._backend.execute(commands.zsets.zrange_withscores(key, start, stop, rev=rev))

    def zrangebyscore(
        self, key: str, min: float | str, max: float | str, *, offset: int = 0, count: int = -1
    ) -> list[str]:
        """The members with a score from `min` to `max`; "(5" is without 5, "-inf" and "+inf" are the ends.
        `count` of them (negative: all) after the first `offset`."""
        return self._backend.execute(
            commands.zsets.zrangebyscore(key, min, max, offset=offset, count=count)
        )

    def zrangebyscore_withscores(
        self, key: str, min: float | str, max: float | str, *, offset: int = 0, count: int = -1
    ) -> list[tuple[str, float]]:
        """The same with the scores."""
        return self._backend.execute(
            commands.zsets.zrangebyscore_withscores(key, min, max, offset=offset, count=count)
        )

    def zpopmin(self, key: str, count: int = 1) -> list[tuple[str, float]]:
        """Take the members with the lowest scores."""
        return self._backend.execute(commands.zsets.zpopmin(key, count))

    def xadd(
        self, key: str, fields: Mapping[str, str], *, id: str = "*", maxlen: int | None = None
    ) -> str:
        """Append an entry; its id. `*` takes the time of the store; `maxlen` drops the oldest beyond it."""
        return self._backend.execute(commands.streams.xadd(key, fields, id=id, maxlen=maxlen))

    def xrange(
        self, key: str, start: str = "-", end: str = "+", *, count: int | None = None
    ) -> list[Entry]:
        """Entries from id `start` to id `end`; "(id" is without that one."""
        return self._backend.execute(commands.streams.xrange(key, start, end, count=count))

    def xread(
        self, streams: Mapping[str, str], *, count: int | None = None, block_ms: int | None = None
    ) -> dict[str, list[Entry]]:
        """What each stream has after the id that is given for it (`$`: its last one); `count` at most of
        each. `block_ms`: when there is nothing, wait so long for an entry; a transaction does not wait."""
        return self._backend.execute(
            commands.streams.xread(streams, count=count, block_ms=block_ms)
        )

    def xlen(self, key: str) -> int:
        """How many entries there are."""
        return self._backend.execute(commands.streams.xlen(key))

    def xdel(self, key: str, *ids: str) -> int:
        """Remove entries; how many there were. An empty stream stays and keeps its last id."""
        return self._backend.execute(commands.streams.xdel(key, *ids))

    def xtrim(self, key: str, maxlen: int) -> int:
        """Drop the oldest entries beyond `maxlen`; how many went."""
        return self._backend.execute(commands.streams.xtrim(key, maxlen))

    def compare_and_set(
        self, key: str, expected: str | None, new: str, px: int | None = None
    ) -> bool:
        """Write `new` if the value is `expected` (None: if there is no such key); whether it was written.
        `px` milliseconds to live, none: for ever."""
        return self._backend.execute(commands.compare.compare_and_set(key, expected, new, px))

    def compare_and_delete(self, key: str, expected: str) -> bool:
        """Remove the key if its value is `expected`; whether it was removed."""
        return self._backend.execute(commands.compare.compare_and_delete(key, expected))
