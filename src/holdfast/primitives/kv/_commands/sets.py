"""Commands on sets."""

from __future__ import annotations

from holdfast.primitives.kv import _read as read
from holdfast.primitives.kv._op import Op


def sadd(key: str, *members: str) -> Op[int]:
    """Add members. Returns how many are new."""
    return Op(("SADD", key, *members), read.number)


def srem(key: str, *members: str) -> Op[int]:
    """Remove members. Returns how many existed. An empty set is deleted."""
    return Op(("SREM", key, *members), read.number)


def smembers(key: str) -> Op[set[str]]:
    """All members."""
    return Op(("SMEMBERS", key), read.text_set)


def sismember(key: str, member: str) -> Op[bool]:
    """Whether it is a member."""
    return Op(("SISMEMBER", key, member), read.flag)


def scard(key: str) -> Op[int]:
    """The number of members."""
    return Op(("SCARD", key), read.number)
