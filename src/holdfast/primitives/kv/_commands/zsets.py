"""Commands on sorted sets: members ordered by score, then by text."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.primitives.kv import _read as read
from holdfast.primitives.kv._op import Op
from holdfast.primitives.kv._words import chosen, mapped, score, whole


def zadd(
    key: str,
    scores: Mapping[str, float],
    *,
    nx: bool = False,
    xx: bool = False,
    gt: bool = False,
    lt: bool = False,
    ch: bool = False,
) -> Op[int]:
    """Set the scores of members. Returns how many are new (`ch`: or changed). `nx`: only new members;
    `xx`: only existing ones; `gt`/`lt`: only increase/decrease a score."""
    words = list(chosen(nx=nx, xx=xx, gt=gt, lt=lt, ch=ch))
    for member, value in mapped(scores).items():
        words += (score(value), member)
    return Op(("ZADD", key, *words), read.number)


def zrem(key: str, *members: str) -> Op[int]:
    """Remove members. Returns how many existed."""
    return Op(("ZREM", key, *members), read.number)


def zscore(key: str, member: str) -> Op[float | None]:
    """The score of a member, or None."""
    return Op(("ZSCORE", key, member), read.maybe_float)


def zcard(key: str) -> Op[int]:
    """The number of members."""
    return Op(("ZCARD", key), read.number)


def zrange(key: str, start: int, stop: int, *, rev: bool = False) -> Op[list[str]]:
    """The members from index `start` to index `stop`, inclusive; `rev`: from the highest score down."""
    return Op(("ZRANGE", key, whole(start), whole(stop), *_reverse(rev)), read.texts)


def zrange_withscores(
    key: str, start: int, stop: int, *, rev: bool = False
) -> Op[list[tuple[str, float]]]:
    """The same with scores."""
    words = ("ZRANGE", key, whole(start), whole(stop), *_reverse(rev), "WITHSCORES")
    return Op(words, read.scored)


def zrangebyscore(
    key: str, min: float | str, max: float | str, *, offset: int = 0, count: int = -1
) -> Op[list[str]]:
    """The members with a score from `min` to `max`; "(5" excludes 5, "-inf" and "+inf" are the ends.
    Skips `offset` members and returns at most `count` (negative: all)."""
    words = ("ZRANGEBYSCORE", key, _bound(min), _bound(max), *_limit(offset, count))
    return Op(words, read.texts)


def zrangebyscore_withscores(
    key: str, min: float | str, max: float | str, *, offset: int = 0, count: int = -1
) -> Op[list[tuple[str, float]]]:
    """The same with scores."""
    limit = _limit(offset, count)
    words = ("ZRANGEBYSCORE", key, _bound(min), _bound(max), "WITHSCORES", *limit)
    return Op(words, read.scored)


def zpopmin(key: str, count: int = 1) -> Op[list[tuple[str, float]]]:
    """Remove and return the members with the lowest scores."""
    return Op(("ZPOPMIN", key, whole(count)), read.scored)


def _bound(bound: float | str) -> str:
    return bound if isinstance(bound, str) else score(bound)


def _reverse(rev: bool) -> tuple[str, ...]:
    return chosen(rev=rev)


def _limit(offset: int, count: int) -> tuple[str, ...]:
    words = ("LIMIT", whole(offset), whole(count))
    return () if offset == 0 and count < 0 else words
