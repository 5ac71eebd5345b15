"""Commands that a transaction collects.

Written by scripts/kv_fronts.py from the signatures in `commands/`.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Literal, overload

from holdfast.primitives.kv import commands
from holdfast.primitives.kv.answer import Answer
from holdfast.primitives.kv.op import Entry, Op, T


class BatchCommands:
    """Every command as a method that promises an answer."""

    __slots__ = ()

    def add(self, op: Op[T]) -> Answer[T]:
        raise NotImplementedError

    def get(self, key: str) -> Answer[str | None]:
        """The value, or None."""
        return self.add(commands.strings.get(key))

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
    ) -> Answer[bool]: ...

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
    ) -> Answer[str | None]: ...

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
    ) -> Answer[bool | str | None]: ...

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
    ) -> Answer[bool | str | None]:
        """Write a value, whatever was there; True when it was written. `ex` seconds or `px` milliseconds to
        live (none: for ever, unless `keepttl`); `nx` only a new key, `xx` only an old one; `get` answers
        with the value before instead."""
        return self.add(
            commands.strings.set(key, value, ex, px=px, nx=nx, xx=xx, keepttl=keepttl, get=get)
        )

    def mget(self, keys: list[str]) -> Answer[list[str | None]]:
        """The values of keys, in their order; None for one that is missing or not a plain value."""
        return self.add(commands.strings.mget(keys))

    def mset(self, mapping: Mapping[str, str]) -> Answer[None]:
        """Write several values at once."""
        return self.add(commands.strings.mset(mapping))

    def incr(self, key: str) -> Answer[int]:
        """Add one to a counter, which starts at 0; its new value."""
        return self.add(commands.strings.incr(key))

    def incrby(self, key: str, amount: int) -> Answer[int]:
        """Add to a counter; its new value."""
        return self.add(commands.strings.incrby(key, amount))

    def decr(self, key: str) -> Answer[int]:
        """Take one from a counter; its new value."""
        return self.add(commands.strings.decr(key))

    def decrby(self, key: str, amount: int) -> Answer[int]:
        """Take from a counter; its new value."""
        return self.add(commands.strings.decrby(key, amount))

    def delete(self, *keys: str) -> Answer[int]:
        """Remove keys; how many there were."""
        return self.add(commands.keys.delete(*keys))

    def exists(self, key: str) -> Answer[bool]:
        """Whether there is such a key."""
        return self.add(commands.keys.exists(key))

    def type(self, key: str) -> Answer[str]:
        """`string`, `hash`, `list`, `set`, `zset`, `stream`, or `none`."""
        return self.add(commands.keys.type(key))

    def expire(self, key: str, seconds: int) -> Answer[bool]:
        """Let the key end in so many seconds (at once when not positive); False when there is none."""
        return self.add(commands.keys.expire(key, seconds))

    def pexpire(self, key: str, milliseconds: int) -> Answer[bool]:
        """Let the key end in so many milliseconds; False when there is none."""
        return self.add(commands.keys.pexpire(key, milliseconds))

    def ttl(self, key: str) -> Answer[int]:
        """Seconds that are left, rounded; -1 when it never ends, -2 when there is no such key."""
        return self.add(commands.keys.ttl(key))

    def pttl(self, key: str) -> Answer[int]:
        """Milliseconds that are left; -1 when it never ends, -2 when there is no such key."""
        return self.add(commands.keys.pttl(key))

    def persist(self, key: str) -> Answer[bool]:
        """Let the key never end; False when it already does not, or there is none."""
        return self.add(commands.keys.persist(key))

    def scan(
        self, cursor: int = 0, match: str | None = None, count: int = 10
    ) -> Answer[tuple[int, list[str]]]:
        """A page of keys and the next cursor, which is 0 at the end. A key that was there all the time is
        found; one that came or went meanwhile may be, and on a live Redis a key may come twice."""
        return self.add(commands.keys.scan(cursor, match, count))

    def hget(self, key: str, field: str) -> Answer[str | None]:
        """The value of a field, or None."""
        return self.add(commands.hashes.hget(key, field))

    def hset(self, key: str, field: str, value: str) -> Answer[int]:
        """Write a field; 1 when it is new, 0 when it was there."""
        return self.add(commands.hashes.hset(key, field, value))

    def hmget(self, key: str, fields: list[str]) -> Answer[list[str | None]]:
        """The values of fields, in their order."""
        return self.add(commands.hashes.hmget(key, fields))

    def hmset(self, key: str, mapping: Mapping[str, str]) -> Answer[None]:
        """Write several fields at once."""
        return self.add(commands.hashes.hmset(key, mapping))

    def hgetall(self, key: str) -> Answer[dict[str, str]]:
        """All fields; empty when there is no such key."""
        return self.add(commands.hashes.hgetall(key))

    def hdel(self, key: str, *fields: str) -> Answer[int]:
        """Remove fields; how many there were. A hash without fields is gone."""
        return self.add(commands.hashes.hdel(key, *fields))

    def hexists(self, key: str, field: str) -> Answer[bool]:
        """Whether there is such a field."""
        return self.add(commands.hashes.hexists(key, field))

    def hlen(self, key: str) -> Answer[int]:
        """How many fields there are."""
        return self.add(commands.hashes.hlen(key))

    def hincrby(self, key: str, field: str, amount: int) -> Answer[int]:
        """Add to a counter in a field; its new value."""
        return self.add(commands.hashes.hincrby(key, field, amount))

    def lpush(self, key: str, *values: str) -> Answer[int]:
        """Put values before the first, one after the other; the new length."""
        return self.add(commands.lists.lpush(key, *values))

    def rpush(self, key: str, *values: str) -> Answer[int]:
        """Put values after the last; the new length."""
        return self.add(commands.lists.rpush(key, *values))

    def lpop(self, key: str) -> Answer[str | None]:
        """Take the first value; None when there is none. An empty list is gone."""
        return self.add(commands.lists.lpop(key))

    def rpop(self, key: str) -> Answer[str | None]:
        """Take the last value; None when there is none."""
        return self.add(commands.lists.rpop(key))

    def llen(self, key: str) -> Answer[int]:
        """How many values there are."""
        return self.add(commands.lists.llen(key))

    def lrange(self, key: str, start: int, stop: int) -> Answer[list[str]]:
        """The values from place `start` to place `stop`, both included."""
        return self.add(commands.lists.lrange(key, start, stop))

    def lindex(self, key: str, place: int) -> Answer[str | None]:
        """The value at a place, or None."""
        return self.add(commands.lists.lindex(key, place))

    def ltrim(self, key: str, start: int, stop: int) -> Answer[None]:
        """Keep only the values from place `start` to place `stop`."""
        return self.add(commands.lists.ltrim(key, start, stop))

    def lrem(self, key: str, count: int, value: str) -> Answer[int]:
        """Remove the value where it first occurs `count` times, from the end when negative, everywhere when
        0; how many were removed."""
        return self.add(commands.lists.lrem(key, count, value))

    def sadd(self, key: str, *members: str) -> Answer[int]:
        """Put members in; how many are new."""
        return self.add(commands.sets.sadd(key, *members))

    def srem(self, key: str, *members: str) -> Answer[int]:
        """Take members out; how many there were. An empty set is gone."""
        return self.add(commands.sets.srem(key, *members))

    def smembers(self, key: str) -> Answer[builtins.set[str]]:
        """All members."""
        return self.add(commands.sets.smembers(key))

    def sismember(self, key: str, member: str) -> Answer[bool]:
        """Whether it is a member."""
        return self.add(commands.sets.sismember(key, member))

    def scard(self, key: str) -> Answer[int]:
        """How many members there are."""
        return self.add(commands.sets.scard(key))

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
    ) -> Answer[int]:
        """Give members their scores; how many are new (`ch`: or changed). `nx` only new members, `xx` only
        old ones, `gt`/`lt` change a score only upwards/downwards."""
        return self.add(commands.zsets.zadd(key, scores, nx=nx, xx=xx, gt=gt, lt=lt, ch=ch))

    def zrem(self, key: str, *members: str) -> Answer[int]:
        """Take members out; how many there were."""
        return self.add(commands.zsets.zrem(key, *members))

    def zscore(self, key: str, member: str) -> Answer[float | None]:
        """The score of a member, or None."""
        return self.add(commands.zsets.zscore(key, member))

    def zcard(self, key: str) -> Answer[int]:
        """How many members there are."""
        return self.add(commands.zsets.zcard(key))

    def zrange(self, key: str, start: int, stop: int, *, rev: bool = False) -> Answer[list[str]]:
        """The members from place `start` to place `stop`, both included; `rev`: from the highest down."""
        return self.add(commands.zsets.zrange(key, start, stop, rev=rev))

    def zrange_withscores(
        self, key: str, start: int, stop: int, *, rev: bool = False
    ) -> Answer[list[tuple[str, float]]]:
        """The same with the scores."""
        return self.add(commands.zsets.zrange_withscores(key, start, stop, rev=rev))

    def zrangebyscore(
        self, key: str, min: float | str, max: float | str, *, offset: int = 0, count: int = -1
    ) -> Answer[list[str]]:
        """The members with a score from `min` to `max`; "(5" is without 5, "-inf" and "+inf" are the ends.
        `count` of them (negative: all) after the first `offset`."""
        return self.add(commands.zsets.zrangebyscore(key, min, max, offset=offset, count=count))

    def zrangebyscore_withscores(
        self, key: str, min: float | str, max: float | str, *, offset: int = 0, count: int = -1
    ) -> Answer[list[tuple[str, float]]]:
        """The same with the scores."""
        return self.add(
            commands.zsets.zrangebyscore_withscores(key, min, max, offset=offset, count=count)
        )

    def zpopmin(self, key: str, count: int = 1) -> Answer[list[tuple[str, float]]]:
        """Take the members with the lowest scores."""
        return self.add(commands.zsets.zpopmin(key, count))

    def xadd(
        self, key: str, fields: Mapping[str, str], *, id: str = "*", maxlen: int | None = None
    ) -> Answer[str]:
        """Append an entry; its id. `*` takes the time of the store; `maxlen` drops the oldest beyond it."""
        return self.add(commands.streams.xadd(key, fields, id=id, maxlen=maxlen))

    def xrange(
        self, key: str, start: str = "-", end: str = "+", *, count: int | None = None
    ) -> Answer[list[Entry]]:
        """Entries from id `start` to id `end`; "(id" is without that one."""
        return self.add(commands.streams.xrange(key, start, end, count=count))

    def xread(
        self, streams: Mapping[str, str], *, count: int | None = None, block_ms: int | None = None
    ) -> Answer[dict[str, list[Entry]]]:
        """What each stream has after the id that is given for it (`$`: its last one); `count` at most of
        each. `block_ms`: when there is nothing, wait so long for an entry; a transaction does not wait."""
        return self.add(commands.streams.xread(streams, count=count, block_ms=block_ms))

    def xlen(self, key: str) -> Answer[int]:
        """How many entries there are."""
        return self.add(commands.streams.xlen(key))

    def xdel(self, key: str, *ids: str) -> Answer[int]:
        """Remove entries; how many there were. An empty stream stays and keeps its last id."""
        return self.add(commands.streams.xdel(key, *ids))

    def xtrim(self, key: str, maxlen: int) -> Answer[int]:
        """Drop the oldest entries beyond `maxlen`; how many went."""
        return self.add(commands.streams.xtrim(key, maxlen))

    def compare_and_set(
        self, key: str, expected: str | None, new: str, px: int | None = None
    ) -> Answer[bool]:
        """Write `new` if the value is `expected` (None: if there is no such key); whether it was written.
        `px` milliseconds to live, none: for ever."""
        return self.add(commands.compare.compare_and_set(key, expected, new, px))

    def compare_and_delete(self, key: str, expected: str) -> Answer[bool]:
        """Remove the key if its value is `expected`; whether it was removed."""
        return self.add(commands.compare.compare_and_delete(key, expected))
