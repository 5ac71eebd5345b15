"""Commands on lists, in memory."""

from __future__ import annotations

from collections import deque
from itertools import islice

from holdfast.primitives.kv._memory.keyspace import Keyspace
from holdfast.primitives.kv._memory.numbers import integer
from holdfast.primitives.kv._op import Reply, Words


def lpush(db: Keyspace, words: Words) -> Reply:
    found = db.make(words[1], deque)
    found.extendleft(words[2:])
    db.touch(words[1])
    return len(found)


def rpush(db: Keyspace, words: Words) -> Reply:
    found = db.make(words[1], deque)
    found.extend(words[2:])
    db.touch(words[1])
    return len(found)


def lpop(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], deque)
    if found is None:
        return None
    value = found.popleft()
    db.changed(words[1], found)
    return value


def rpop(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], deque)
    if found is None:
        return None
    value = found.pop()
    db.changed(words[1], found)
    return value


def llen(db: Keyspace, words: Words) -> Reply:
    return len(db.find_as(words[1], deque) or ())


def lrange(db: Keyspace, words: Words) -> Reply:
    start, stop = integer(words[2]), integer(words[3])
    found = db.find_as(words[1], deque) or deque()
    return list(islice(found, *span(start, stop, len(found))))


def lindex(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], deque)
    if found is None:
        return None
    place = integer(words[2])
    return found[place] if -len(found) <= place < len(found) else None


def ltrim(db: Keyspace, words: Words) -> Reply:
    start, stop = integer(words[2]), integer(words[3])
    found = db.find_as(words[1], deque)
    if found is not None:
        low, high = span(start, stop, len(found))
        for _ in range(len(found) - high):
            found.pop()
        for _ in range(min(low, len(found))):
            found.popleft()
        db.changed(words[1], found)
    return "OK"


def lrem(db: Keyspace, words: Words) -> Reply:
    count, value = integer(words[2]), words[3]
    found = db.find_as(words[1], deque)
    if found is None:
        return 0
    places = [place for place, each in enumerate(found) if each == value]
    if count:
        places = places[:count] if count > 0 else places[count:]
    for place in reversed(places):
        del found[place]
    if places:
        db.changed(words[1], found)
    return len(places)


def span(start: int, stop: int, length: int) -> tuple[int, int]:
    """Indexes that may count from the end, as a half-open range within the length."""
    low = max(0, start + length if start < 0 else start)
    high = min(length, (stop + length if stop < 0 else stop) + 1)
    return (low, high) if low < high else (0, 0)
