"""Commands of the key-value store, drawn by Hypothesis: valid, unusual and malformed ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import Phase, given, settings, strategies as st

from holdfast.primitives.kv._commands import (
    compare,
    hashes,
    keys,
    lists,
    sets,
    streams,
    strings,
    zsets,
)
from holdfast.primitives.kv._op import Op

AnyOp = Op[Any]
T = TypeVar("T")

INT_MAX = 2**63 - 1
KEYS = ("text", "hash", "list", "set", "zset", "stream", "ž", "")


def at(name: str) -> st.SearchStrategy[str]:
    """Mostly the key of that type, so that commands meet their type; sometimes another."""
    return st.sampled_from((*(name,) * 12, *KEYS))


def mostly(good: st.SearchStrategy[T], rest: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    return st.integers(0, 7).flatmap(lambda number: rest if number == 7 else good)


key = st.sampled_from(KEYS)
plain_key = st.sampled_from(("text", "text", "ž", ""))
text, hash, list_, set_, zset, stream = map(at, KEYS[:6])
word = st.sampled_from(("", "0", "x", "y", "é", "ž*", "10", " 5", "\x00\n"))
counter = st.sampled_from(("0", "5", "-7", str(INT_MAX), str(-INT_MAX - 1), str(INT_MAX + 1)))
odd_number = st.sampled_from(("05", "+5", "-0", "5 ", "1.5", "nope", ""))
value = word | counter | odd_number
junk = odd_number | st.sampled_from(("x", "ž*", str(2**70)))
field = st.sampled_from(("f", "g", "ž", ""))
element = st.sampled_from(("x", "y", ""))
elements: st.SearchStrategy[list[str]] = st.lists(element, min_size=1, max_size=4) | st.just([])
amount = mostly(st.integers(-3, 3), st.sampled_from((INT_MAX, -INT_MAX - 1, INT_MAX + 1, 2**70)))
place = mostly(st.integers(-6, 6), st.sampled_from((INT_MAX, -INT_MAX - 1, 2**70)))
score = st.sampled_from((0.0, -0.0, 1.0, 1.5, -2.25, 1e300, float("inf"), float("-inf"), 2.0**60))
edge: st.SearchStrategy[float | str] = mostly(
    score | st.sampled_from(("-inf", "+inf", "(1.5", "(-inf", "(0")),
    st.sampled_from(("", "(", "1e400", "x", "nan", "1_0")),
)
stream_id = mostly(
    st.sampled_from(
        ("1-1", "1", "1-*", "2-0", "2-5", "0-1", "0-*", "3-*", "4-*", "5-*", "6-*", "7-*")
    ),
    st.sampled_from(("0-0", "x", "1-x", "-1", "1-1-1", "(2", "", f"5-{2**64 - 1}", f"{2**64}-0")),
)
after_id = mostly(st.sampled_from(("0", "0-1", "1", "2-5", "$", "9")), stream_id)
last_ids = st.sampled_from((f"{2**64 - 1}-{2**64 - 1}", f"{2**64 - 1}-*"))
range_id = mostly(
    st.sampled_from(("-", "+", "1", "(1-1", "2-0", "(2", "5")),
    st.sampled_from(
        ("(0-0", f"({2**64 - 1}-{2**64 - 1}", "(", "(x", "x", "1-x", "-1", "", f"{2**64}-0")
    ),
)
flag = st.booleans()
rarely = st.sampled_from((False, False, False, True))
count = st.none() | st.integers(-1, 4)
some_keys = st.lists(key, max_size=3)
some_words: st.SearchStrategy[list[str]] = st.lists(word, min_size=1, max_size=3) | st.just([])
lifetime_ms = st.integers(1_000_000, 9_000_000)
pattern = st.text(alphabet="abz*?[]^-\\ž", max_size=6)

READS: dict[str, st.SearchStrategy[AnyOp]] = {
    "GET": st.builds(strings.get, text),
    "MGET": st.builds(strings.mget, some_keys),
    "EXISTS": st.builds(keys.exists, key),
    "TYPE": st.builds(keys.type, key),
    "HGET": st.builds(hashes.hget, hash, field),
    "HMGET": st.builds(hashes.hmget, key, st.lists(field, max_size=3)),
    "HGETALL": st.builds(hashes.hgetall, hash),
    "HEXISTS": st.builds(hashes.hexists, hash, field),
    "HLEN": st.builds(hashes.hlen, hash),
    "LLEN": st.builds(lists.llen, list_),
    "LRANGE": st.builds(lists.lrange, list_, place, place),
    "LINDEX": st.builds(lists.lindex, list_, place),
    "SMEMBERS": st.builds(sets.smembers, set_),
    "SISMEMBER": st.builds(sets.sismember, set_, word),
    "SCARD": st.builds(sets.scard, set_),
    "ZSCORE": st.builds(zsets.zscore, zset, word),
    "ZCARD": st.builds(zsets.zcard, zset),
    "ZRANGE": st.builds(zsets.zrange, zset, place, place, rev=flag)
    | st.builds(zsets.zrange_withscores, zset, place, place, rev=flag),
    "ZRANGEBYSCORE": st.builds(
        zsets.zrangebyscore, zset, edge, edge, offset=st.integers(-1, 3), count=st.integers(-1, 3)
    )
    | st.builds(zsets.zrangebyscore_withscores, zset, edge, edge),
    "XRANGE": st.builds(streams.xrange, stream, range_id, range_id, count=count),
    "XREAD": st.builds(
        streams.xread,
        st.dictionaries(stream, after_id, max_size=2),
        count=count,
        block_ms=st.none() | st.just(1),
    ),
    "XLEN": st.builds(streams.xlen, stream),
}

WRITES: dict[str, st.SearchStrategy[AnyOp]] = {
    "SET": st.builds(strings.set, text, value, nx=rarely, xx=rarely, keepttl=flag, get=flag),
    "MSET": st.builds(strings.mset, st.dictionaries(plain_key, value, max_size=3)),
    "INCR": st.builds(strings.incr, text),
    "INCRBY": st.builds(strings.incrby, text, amount),
    "DECR": st.builds(strings.decr, text),
    "DECRBY": st.builds(strings.decrby, text, amount),
    "DEL": st.builds(keys.delete, key) | some_keys.map(lambda found: keys.delete(*found)),
    "PERSIST": st.builds(keys.persist, key),
    "HSET": st.builds(hashes.hset, hash, field, value),
    "HMSET": st.builds(hashes.hmset, hash, st.dictionaries(field, value, max_size=3)),
    "HDEL": st.builds(lambda k, found: hashes.hdel(k, *found), hash, st.lists(field, max_size=3)),
    "HINCRBY": st.builds(hashes.hincrby, hash, field, amount),
    "LPUSH": st.builds(lambda k, found: lists.lpush(k, *found), list_, elements),
    "RPUSH": st.builds(lambda k, found: lists.rpush(k, *found), list_, elements),
    "LPOP": st.builds(lists.lpop, list_),
    "RPOP": st.builds(lists.rpop, list_),
    "LTRIM": st.builds(lists.ltrim, list_, place, place),
    "LREM": st.builds(lists.lrem, list_, st.integers(-2, 2), element),
    "SADD": st.builds(lambda k, found: sets.sadd(k, *found), set_, some_words),
    "SREM": st.builds(lambda k, found: sets.srem(k, *found), set_, some_words),
    "ZADD": st.builds(
        zsets.zadd,
        zset,
        st.dictionaries(word, score, max_size=3),
        nx=rarely,
        xx=rarely,
        gt=rarely,
        lt=rarely,
        ch=flag,
    ),
    "ZREM": st.builds(lambda k, found: zsets.zrem(k, *found), zset, some_words),
    "ZPOPMIN": st.builds(zsets.zpopmin, zset, st.integers(-1, 3)),
    "XADD": st.builds(
        streams.xadd,
        stream,
        st.dictionaries(field, word, max_size=2),
        id=stream_id,
        maxlen=st.none() | st.integers(-1, 3),
    ),
    "XADD last": st.builds(streams.xadd, key, st.just({"f": "v"}), id=last_ids),
    "XDEL": st.builds(
        lambda k, found: streams.xdel(k, *found), stream, st.lists(stream_id, max_size=2)
    ),
    "XTRIM": st.builds(streams.xtrim, stream, st.integers(-1, 3)),
    "EVAL": st.builds(compare.compare_and_set, text, st.none() | value, value)
    | st.builds(compare.compare_and_delete, text, value),
    "EXPIRE": st.builds(keys.expire, key, st.sampled_from((0, -1, -(2**62), 2**62, 2**70))),
    "PEXPIRE": st.builds(keys.pexpire, key, st.sampled_from((0, -5, INT_MAX, 2**70))),
    "SET ex": st.builds(strings.set, text, value, st.sampled_from((0, -1, 2**62)))
    | st.builds(strings.set, text, value, px=st.sampled_from((0, -1, INT_MAX)))
    | st.builds(strings.set, text, value, st.just(5), px=st.just(5), keepttl=flag),
}

EACH = 40


@functools.cache
def pool() -> tuple[AnyOp, ...]:
    """Some of every command, drawn once: a step of the machine then draws one number, not a command."""
    return tuple(op for strategy in (READS | WRITES).values() for op in some(strategy))


def some(strategy: st.SearchStrategy[AnyOp]) -> list[AnyOp]:
    found: list[AnyOp] = []

    @settings(max_examples=EACH, derandomize=True, database=None, phases=[Phase.generate])
    @given(strategy)
    def collect(op: AnyOp) -> None:
        found.append(op)

    collect()
    return found


def is_watched(op: AnyOp) -> bool:
    """In Redis any LTRIM is a change, in Valkey only one that removes something."""
    return op.words[0] in WRITES and op.words[0] != "LTRIM"


@functools.cache
def watched_pool() -> tuple[AnyOp, ...]:
    return tuple(filter(is_watched, pool()))


number = st.integers(0, 2**32)
valid = number.map(lambda n: pool()[n % len(pool())])
writes = number.map(lambda n: watched_pool()[n % len(watched_pool())])


@st.composite
def malformed(draw: st.DrawFn) -> AnyOp:
    """A command with a missing word, or with a wrong one."""
    op: AnyOp = draw(valid)
    words = list(op.words)
    if words[0] == "EVAL" or len(words) == 1:
        return op  # another script would not be a command of Holdfast
    at = draw(st.integers(1, len(words) - 1))
    if draw(flag):
        del words[at]
    else:
        words[at] = draw(junk)
    return Op(tuple(words), op.read)


def ending(
    make: Callable[[str, str, int], AnyOp], at: st.SearchStrategy[str]
) -> st.SearchStrategy[tuple[AnyOp, str, int]]:
    seconds = st.integers(1_000, 9_000)
    return st.builds(lambda k, v, s: (make(k, v, s * 1000), k, s * 1000), at, value, seconds)


mortal = st.one_of(
    ending(lambda k, v, ms: strings.set(k, v, px=ms), plain_key),
    ending(lambda k, v, ms: strings.set(k, v, ms // 1000), plain_key),
    ending(lambda k, v, ms: keys.pexpire(k, ms), key),
    ending(lambda k, v, ms: keys.expire(k, ms // 1000), key),
    ending(lambda k, v, ms: compare.compare_and_set(k, v, v, ms), plain_key),
    ending(lambda k, v, ms: compare.compare_and_set(k, None, v, ms), plain_key),
)
"""Commands that set an expiry, the key, and the milliseconds."""
