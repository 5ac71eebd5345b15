"""Commands on lists; places count from 0, from the end as -1, -2, ..."""

from __future__ import annotations

from holdfast.primitives.kv import read
from holdfast.primitives.kv.op import Op
from holdfast.primitives.kv.words import whole


def lpush(key: str, *values: str) -> Op[int]:
    """Put values before the first, one after the other; the new length."""
    return Op(("LPUSH", key, *values), read.number)


def rpush(key: str, *values: str) -> Op[int]:
    """Put values after the last; the new length."""
    return Op(("RPUSH", key, *values), read.number)


def lpop(key: str) -> Op[str | None]:
    """Take the first value; None when there is none. An empty list is gone."""
    return Op(("LPOP", key), read.maybe_text)


def rpop(key: str) -> Op[str | None]:
    """Take the last value; None when there is none."""
    return Op(("RPOP", key), read.maybe_text)


def llen(key: str) -> Op[int]:
    """How many values there are."""
    return Op(("LLEN", key), read.number)


def lrange(key: str, start: int, stop: int) -> Op[list[str]]:
    """The values from place `start` to place `stop`, both included."""
    return Op(("LRANGE", key, whole(start), whole(stop)), read.texts)


def lindex(key: str, place: int) -> Op[str | None]:
    """The value at a place, or None."""
    return Op(("LINDEX", key, whole(place)), read.maybe_text)


def ltrim(key: str, start: int, stop: int) -> Op[None]:
    """Keep only the values from place `start` to place `stop`."""
    return Op(("LTRIM", key, whole(start), whole(stop)), read.done)


def lrem(key: str, count: int, value: str) -> Op[int]:
    """Remove the value where it first occurs `count` times, from the end when negative, everywhere when
    0; how many were removed."""
    return Op(("LREM", key, whole(count), value), read.number)
