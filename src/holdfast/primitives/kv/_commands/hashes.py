"""Commands on hashes: fields with values under one key."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.primitives.kv import _read as read
from holdfast.primitives.kv._op import Op
from holdfast.primitives.kv._words import pairs, texts, whole


def hget(key: str, field: str) -> Op[str | None]:
    """The value of a field, or None."""
    return Op(("HGET", key, field), read.maybe_text)


def hset(key: str, field: str, value: str) -> Op[int]:
    """Write a field. Returns 1 when it is new, 0 when it existed."""
    return Op(("HSET", key, field, value), read.number)


def hmget(key: str, fields: list[str]) -> Op[list[str | None]]:
    """The values of fields, in the given order."""
    return Op(("HMGET", key, *texts(fields)), read.maybe_texts)


def hmset(key: str, mapping: Mapping[str, str]) -> Op[None]:
    """Write several fields at once."""
    return Op(("HMSET", key, *pairs(mapping)), read.done)


def hgetall(key: str) -> Op[dict[str, str]]:
    """All fields; empty when the key does not exist."""
    return Op(("HGETALL", key), read.text_map)


def hdel(key: str, *fields: str) -> Op[int]:
    """Delete fields. Returns how many existed. A hash without fields is deleted."""
    return Op(("HDEL", key, *fields), read.number)


def hexists(key: str, field: str) -> Op[bool]:
    """Whether the field exists."""
    return Op(("HEXISTS", key, field), read.flag)


def hlen(key: str) -> Op[int]:
    """The number of fields."""
    return Op(("HLEN", key), read.number)


def hincrby(key: str, field: str, amount: int) -> Op[int]:
    """Add to a counter in a field. Returns its new value."""
    return Op(("HINCRBY", key, field, whole(amount)), read.number)
