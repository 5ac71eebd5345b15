"""Commands on plain values and counters, in memory."""

from __future__ import annotations

from holdfast.primitives.kv._memory.keyspace import Keyspace
from holdfast.primitives.kv._memory.numbers import INT_MAX, INT_MIN, integer
from holdfast.primitives.kv._op import Reply, Words
from holdfast.primitives.kv._problems import (
    SYNTAX,
    WOULD_OVERFLOW,
    WRONG_TYPE,
    Refused,
    bad_expiry,
    wrong_arity,
)


def get(db: Keyspace, words: Words) -> Reply:
    found = db.find(words[1])
    if found is None or isinstance(found, str):
        return found
    raise Refused(WRONG_TYPE)


def set_(db: Keyspace, words: Words) -> Reply:
    if len(words) == 3:
        db.put(words[1], words[2])
        return "OK"
    return _set_with_options(db, words)


def _set_with_options(db: Keyspace, words: Words) -> Reply:
    options = _set_options(words)
    deadline = _deadline(db, options)
    key = words[1]
    asks = "GET" in options
    before = db.find_as(key, str) if asks else None
    found = db.find(key)
    if ("NX" in options and found is not None) or ("XX" in options and found is None):
        return before
    kept = db.deadlines.get(key) if "KEEPTTL" in options else deadline
    db.put(key, words[2])
    if kept is not None:
        db.end_at(key, kept)
    return before if asks else "OK"


def _set_options(words: Words) -> dict[str, str]:
    """The options by name; those of time have a value."""
    found: dict[str, str] = {}
    rest = iter(words[3:])
    for word in rest:
        name = word.upper()
        value = ""
        if name in ("EX", "PX"):
            given = next(rest, None)
            if given is None:
                raise Refused(SYNTAX)
            value = given
        elif name not in ("NX", "XX", "KEEPTTL", "GET"):
            raise Refused(SYNTAX)
        found[name] = value
        if {"NX", "XX"} <= found.keys() or len(found.keys() & {"EX", "PX", "KEEPTTL"}) > 1:
            raise Refused(SYNTAX)
    return found


def _deadline(db: Keyspace, options: dict[str, str]) -> int | None:
    if "EX" in options:
        ms = integer(options["EX"]) * 1000
    elif "PX" in options:
        ms = integer(options["PX"])
    else:
        return None
    deadline = db.now_ms() + ms
    if ms <= 0 or deadline > INT_MAX:
        raise Refused(bad_expiry("set"))
    return deadline


def mget(db: Keyspace, words: Words) -> Reply:
    found = map(db.find, words[1:])
    return [value if isinstance(value, str) else None for value in found]


def mset(db: Keyspace, words: Words) -> Reply:
    if len(words) % 2 == 0:
        raise Refused(wrong_arity("mset"))
    for place in range(1, len(words), 2):
        db.put(words[place], words[place + 1])
    return "OK"


def incr(db: Keyspace, words: Words) -> Reply:
    return _add(db, words[1], 1)


def incrby(db: Keyspace, words: Words) -> Reply:
    return _add(db, words[1], integer(words[2]))


def decr(db: Keyspace, words: Words) -> Reply:
    return _add(db, words[1], -1)


def decrby(db: Keyspace, words: Words) -> Reply:
    amount = integer(words[2])
    if amount == INT_MIN:
        raise Refused("decrement would overflow")
    return _add(db, words[1], -amount)


def _add(db: Keyspace, key: str, amount: int) -> int:
    found = db.find_as(key, str)
    number = (0 if found is None else integer(found)) + amount
    if not INT_MIN <= number <= INT_MAX:
        raise Refused(WOULD_OVERFLOW)
    db.values[key] = str(number)
    db.touch(key)
    return number
