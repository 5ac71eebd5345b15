"""Commands on hashes, in memory."""

from __future__ import annotations

from holdfast.primitives.kv._memory.keyspace import Keyspace
from holdfast.primitives.kv._memory.numbers import INT_MAX, INT_MIN, integer
from holdfast.primitives.kv._op import Reply, Words
from holdfast.primitives.kv._problems import WOULD_OVERFLOW, Refused, wrong_arity


def hget(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], dict)
    return None if found is None else found.get(words[2])


def hset(db: Keyspace, words: Words) -> Reply:
    if len(words) % 2:
        raise Refused(wrong_arity(words[0]))
    found = db.make(words[1], dict)
    before = len(found)
    for place in range(2, len(words), 2):
        found[words[place]] = words[place + 1]
    db.touch(words[1])
    return len(found) - before


def hmset(db: Keyspace, words: Words) -> Reply:
    hset(db, words)
    return "OK"


def hmget(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], dict) or {}
    return [found.get(field) for field in words[2:]]


def hgetall(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], dict) or {}
    return [word for pair in found.items() for word in pair]


def hdel(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], dict) or {}
    count = sum(found.pop(field, None) is not None for field in words[2:])
    if count:
        db.changed(words[1], found)
    return count


def hexists(db: Keyspace, words: Words) -> Reply:
    return int(words[2] in (db.find_as(words[1], dict) or ()))


def hlen(db: Keyspace, words: Words) -> Reply:
    return len(db.find_as(words[1], dict) or ())


def hincrby(db: Keyspace, words: Words) -> Reply:
    _, key, field, amount = words
    added = integer(amount)
    found = db.make(key, dict)
    number = integer(found.get(field, "0"), "hash value is not an integer") + added
    if not INT_MIN <= number <= INT_MAX:
        raise Refused(WOULD_OVERFLOW)
    found[field] = str(number)
    db.touch(key)
    return number
