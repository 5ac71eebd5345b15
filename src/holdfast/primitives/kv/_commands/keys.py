"""Commands on keys of any type."""

from __future__ import annotations

from holdfast.primitives.kv import _read as read
from holdfast.primitives.kv._op import Op
from holdfast.primitives.kv._words import whole


def delete(*keys: str) -> Op[int]:
    """Delete keys. Returns how many existed."""
    return Op(("DEL", *keys), read.number)


def exists(key: str) -> Op[bool]:
    """Whether the key exists."""
    return Op(("EXISTS", key), read.flag)


def type(key: str) -> Op[str]:
    """`string`, `hash`, `list`, `set`, `zset`, `stream`, or `none`."""
    return Op(("TYPE", key), read.text)


def expire(key: str, seconds: int) -> Op[bool]:
    """Expire the key after this many seconds (at once if not positive). False when it does not exist."""
    return Op(("EXPIRE", key, whole(seconds)), read.flag)


def pexpire(key: str, milliseconds: int) -> Op[bool]:
    """Expire the key after this many milliseconds. False when it does not exist."""
    return Op(("PEXPIRE", key, whole(milliseconds)), read.flag)


def ttl(key: str) -> Op[int]:
    """Remaining seconds, rounded; -1 when the key does not expire, -2 when it does not exist."""
    return Op(("TTL", key), read.number)


def pttl(key: str) -> Op[int]:
    """Remaining milliseconds; -1 when the key does not expire, -2 when it does not exist."""
    return Op(("PTTL", key), read.number)


def persist(key: str) -> Op[bool]:
    """Remove the expiry of a key. False when it has none, or does not exist."""
    return Op(("PERSIST", key), read.flag)


def scan(cursor: int = 0, match: str | None = None, count: int = 10) -> Op[tuple[int, list[str]]]:
    """A page of keys and the next cursor, which is 0 at the end. A key that exists during the whole scan
    is returned. A key that was added or deleted meanwhile may be returned. A live Redis may return a key
    twice."""
    pattern = () if match is None else ("MATCH", match)
    return Op(("SCAN", whole(cursor), *pattern, "COUNT", whole(count)), read.page)
