"""Commands on sets, in memory."""

from __future__ import annotations

from holdfast.primitives.kv._memory.keyspace import Keyspace
from holdfast.primitives.kv._op import Reply, Words


def sadd(db: Keyspace, words: Words) -> Reply:
    found = db.make(words[1], set)
    before = len(found)
    found.update(words[2:])
    count = len(found) - before
    if count:
        db.touch(words[1])
    return count


def srem(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], set)
    if found is None:
        return 0
    before = len(found)
    found.difference_update(words[2:])
    count = before - len(found)
    if count:
        db.changed(words[1], found)
    return count


def smembers(db: Keyspace, words: Words) -> Reply:
    return list(db.find_as(words[1], set) or ())


def sismember(db: Keyspace, words: Words) -> Reply:
    return int(words[2] in (db.find_as(words[1], set) or ()))


def scard(db: Keyspace, words: Words) -> Reply:
    return len(db.find_as(words[1], set) or ())
