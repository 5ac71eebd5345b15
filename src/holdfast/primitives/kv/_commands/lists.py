"""Commands on lists. Indexes count from 0, and from the end as -1, -2, ..."""

from __future__ import annotations

from holdfast.primitives.kv import _read as read
from holdfast.primitives.kv._op import Op
from holdfast.primitives.kv._words import whole


def lpush(key: str, *values: str) -> Op[int]:
    """Prepend values one after the other. Returns the new length."""
    return Op(("LPUSH", key, *values), read.number)


def rpush(key: str, *values: str) -> Op[int]:
    """Append values. Returns the new length."""
    return Op(("RPUSH", key, *values), read.number)


def lpop(key: str) -> Op[str | None]:
    """Remove and return the first value; None when there is none. An empty list is deleted."""
    return Op(("LPOP", key), read.maybe_text)


def rpop(key: str) -> Op[str | None]:
    """Remove and return the last value; None when there is none."""
    return Op(("RPOP", key), read.maybe_text)


def llen(key: str) -> Op[int]:
    """The number of values."""
    return Op(("LLEN", key), read.number)


def lrange(key: str, start: int, stop: int) -> Op[list[str]]:
    """The values from index `start` to index `stop`, inclusive."""
    return Op(("LRANGE", key, whole(start), whole(stop)), read.texts)


def lindex(key: str, place: int) -> Op[str | None]:
    """The value at an index, or None."""
    return Op(("LINDEX", key, whole(place)), read.maybe_text)


def ltrim(key: str, start: int, stop: int) -> Op[None]:
    """Keep only the values from index `start` to index `stop`, inclusive."""
    return Op(("LTRIM", key, whole(start), whole(stop)), read.done)


def lrem(key: str, count: int, value: str) -> Op[int]:
    """Remove the first `count` occurrences of the value, from the end when negative, all when 0. Returns
    how many were removed."""
    return Op(("LREM", key, whole(count), value), read.number)
