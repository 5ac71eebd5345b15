"""Commands on plain values and counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, overload

from holdfast.primitives.kv import _read as read
from holdfast.primitives.kv._op import Op
from holdfast.primitives.kv._words import chosen, pairs, texts, whole


def get(key: str) -> Op[str | None]:
    """The value, or None."""
    return Op(("GET", key), read.maybe_text)


@overload
def set(
    key: str,
    value: str,
    ex: int | None = None,
    *,
    px: int | None = None,
    nx: bool = False,
    xx: bool = False,
    keepttl: bool = False,
    get: Literal[False] = False,
) -> Op[bool]: ...


@overload
def set(
    key: str,
    value: str,
    ex: int | None = None,
    *,
    px: int | None = None,
    nx: bool = False,
    xx: bool = False,
    keepttl: bool = False,
    get: Literal[True],
) -> Op[str | None]: ...


@overload
def set(
    key: str,
    value: str,
    ex: int | None = None,
    *,
    px: int | None = None,
    nx: bool = False,
    xx: bool = False,
    keepttl: bool = False,
    get: bool,
) -> Op[bool | str | None]: ...


def set(
    key: str,
    value: str,
    ex: int | None = None,
    *,
    px: int | None = None,
    nx: bool = False,
    xx: bool = False,
    keepttl: bool = False,
    get: bool = False,
) -> Op[bool | str | None]:
    """Write a value, replacing any other. Returns True when it was written. `ex` (seconds) or `px`
    (milliseconds): time to live; without them the key does not expire, unless `keepttl`. `nx`: only if
    the key does not exist; `xx`: only if it does. `get`: return the previous value instead."""
    if ex is None and px is None and nx is xx is keepttl is get is False:
        return Op(("SET", key, value), read.written)
    words = ["SET", key, value]
    if ex is not None:
        words += ("EX", whole(ex))
    if px is not None:
        words += ("PX", whole(px))
    words += chosen(nx=nx, xx=xx, keepttl=keepttl, get=get)
    return Op(tuple(words), read.maybe_text if get else read.written)


def mget(keys: list[str]) -> Op[list[str | None]]:
    """The values of keys, in the given order; None for a key that is missing or not a plain value."""
    return Op(("MGET", *texts(keys)), read.maybe_texts)


def mset(mapping: Mapping[str, str]) -> Op[None]:
    """Write several values at once."""
    return Op(("MSET", *pairs(mapping)), read.done)


def incr(key: str) -> Op[int]:
    """Add one to a counter, which starts at 0. Returns its new value."""
    return Op(("INCR", key), read.number)


def incrby(key: str, amount: int) -> Op[int]:
    """Add to a counter. Returns its new value."""
    return Op(("INCRBY", key, whole(amount)), read.number)


def decr(key: str) -> Op[int]:
    """Subtract one from a counter. Returns its new value."""
    return Op(("DECR", key), read.number)


def decrby(key: str, amount: int) -> Op[int]:
    """Subtract from a counter. Returns its new value."""
    return Op(("DECRBY", key, whole(amount)), read.number)
