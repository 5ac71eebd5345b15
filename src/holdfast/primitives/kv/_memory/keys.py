"""Commands on keys of any type, in memory."""

from __future__ import annotations

from collections import deque
from typing import Final

from holdfast.primitives.kv._memory.glob import matches
from holdfast.primitives.kv._memory.keyspace import Keyspace
from holdfast.primitives.kv._memory.numbers import INT_MAX, INT_MIN, integer, unsigned
from holdfast.primitives.kv._memory.values import Stream, ZSet
from holdfast.primitives.kv._op import Reply, Words
from holdfast.primitives.kv._problems import INVALID_CURSOR, SYNTAX, Refused, bad_expiry

NAMES: Final = {
    str: "string", dict: "hash", deque: "list", set: "set", ZSet: "zset", Stream: "stream"
}  # fmt: skip
GONE, ENDLESS = -2, -1


def delete(db: Keyspace, words: Words) -> Reply:
    count = 0
    for key in words[1:]:
        if db.find(key) is not None:
            db.drop(key)
            count += 1
    return count


def exists(db: Keyspace, words: Words) -> Reply:
    return sum(db.find(key) is not None for key in words[1:])


def type_name(db: Keyspace, words: Words) -> Reply:
    found = db.find(words[1])
    return "none" if found is None else NAMES[type(found)]


def expire(db: Keyspace, words: Words) -> Reply:
    seconds = integer(words[2])
    if not INT_MIN // 1000 < seconds <= INT_MAX // 1000:
        raise Refused(bad_expiry("expire"))
    return _end_in(db, words, seconds * 1000)


def pexpire(db: Keyspace, words: Words) -> Reply:
    return _end_in(db, words, integer(words[2]))


def _end_in(db: Keyspace, words: Words, ms: int) -> Reply:
    if len(words) > 3:
        raise Refused(SYNTAX)
    deadline = db.now_ms() + ms
    if deadline > INT_MAX:
        raise Refused(bad_expiry(words[0]))
    key = words[1]
    if db.find(key) is None:
        return 0
    if ms <= 0:
        db.drop(key)
    else:
        db.end_at(key, deadline)
    return 1


def ttl(db: Keyspace, words: Words) -> Reply:
    left = _left_ms(db, words[1])
    return left if left < 0 else (left + 500) // 1000


def pttl(db: Keyspace, words: Words) -> Reply:
    return _left_ms(db, words[1])


def _left_ms(db: Keyspace, key: str) -> int:
    if db.find(key) is None:
        return GONE
    deadline = db.deadlines.get(key)
    return ENDLESS if deadline is None else deadline - db.now_ms()


def persist(db: Keyspace, words: Words) -> Reply:
    key = words[1]
    if db.find(key) is None or db.deadlines.pop(key, None) is None:
        return 0
    db.touch(key)
    return 1


def scan(db: Keyspace, words: Words) -> Reply:
    cursor = unsigned(words[1], INVALID_CURSOR)
    pattern, count = "*", 10
    options = iter(words[2:])
    for option in options:
        value = next(options, None)
        match option.upper():
            case "MATCH" if value is not None:
                pattern = value
            case "COUNT" if value is not None:
                count = integer(value)
                if count < 1:
                    raise Refused(SYNTAX)
            case _:
                raise Refused(SYNTAX)
    following, keys = db.scan(cursor, count)
    found: list[Reply] = [key for key in keys if pattern == "*" or matches(pattern, key)]
    return [str(following), found]
