"""Commands on keys of any type."""

from __future__ import annotations

from holdfast.primitives.kv import read
from holdfast.primitives.kv.op import Op
from holdfast.primitives.kv.words import whole


def delete(*keys: str) -> Op[int]:
    """Remove keys; how many there were."""
    return Op(("DEL", *keys), read.number)


def exists(key: str) -> Op[bool]:
    """Whether there is such a key."""
    return Op(("EXISTS", key), read.flag)


def type(key: str) -> Op[str]:
    """`string`, `hash`, `list`, `set`, `zset`, `stream`, or `none`."""
    return Op(("TYPE", key), read.text)


def expire(key: str, seconds: int) -> Op[bool]:
    """Let the key end in so many seconds (at once when not positive); False when there is none."""
    return Op(("EXPIRE", key, whole(seconds)), read.flag)


def pexpire(key: str, milliseconds: int) -> Op[bool]:
    """Let the key end in so many milliseconds; False when there is none."""
    return Op(("PEXPIRE", key, whole(milliseconds)), read.flag)


def ttl(key: str) -> Op[int]:
    """Seconds that are left, rounded; -1 when it never ends, -2 when there is no such key."""
    return Op(("TTL", key), read.number)


def pttl(key: str) -> Op[int]:
    """Milliseconds that are left; -1 when it never ends, -2 when there is no such key."""
    return Op(("PTTL", key), read.number)


def persist(key: str) -> Op[bool]:
    """Let the key never end; False when it already does not, or there is none."""
    return Op(("PERSIST", key), read.flag)


def scan(cursor: int = 0, match: str | None = None, count: int = 10) -> Op[tuple[int, list[str]]]:
    """A page of keys and the next cursor, which is 0 at the end. A key that was there all the time is
    found; one that came or went meanwhile may be, and on a live Redis a key may come twice."""
    pattern = () if match is None else ("MATCH", match)
    return Op(("SCAN", whole(cursor), *pattern, "COUNT", whole(count)), read.page)
