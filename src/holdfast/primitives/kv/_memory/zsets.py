"""Commands on sorted sets, in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.primitives.kv._memory.keyspace import Keyspace
from holdfast.primitives.kv._memory.lists import span
from holdfast.primitives.kv._memory.numbers import bound, integer, score, score_text
from holdfast.primitives.kv._memory.values import ZSet
from holdfast.primitives.kv._op import Reply, Words
from holdfast.primitives.kv._problems import NOT_POSITIVE, SYNTAX, Refused

OPTIONS: Final = {"NX", "XX", "GT", "LT", "CH"}


def zadd(db: Keyspace, words: Words) -> Reply:
    place = 2
    while place < len(words) and words[place].upper() in OPTIONS:
        place += 1
    options = {word.upper() for word in words[2:place]}
    pairs = words[place:]
    _refuse_bad_zadd(options, pairs)
    scores = [score(text) for text in pairs[::2]]
    found = db.find_as(words[1], ZSet)
    if found is None:
        if "XX" in options:
            return 0
        found = db.make(words[1], ZSet)
    added = changed = 0
    for member, new in zip(pairs[1::2], scores, strict=True):
        before = found.scores.get(member)
        if before is None:
            if "XX" not in options:
                found.put(member, new)
                added += 1
        elif _may_change(options, before, new):
            found.put(member, new)
            changed += 1
    if added or changed:
        db.touch(words[1])
    return added + changed if "CH" in options else added


def _refuse_bad_zadd(options: set[str], pairs: Words) -> None:
    if not pairs or len(pairs) % 2:
        raise Refused(SYNTAX)
    if {"NX", "XX"} <= options:
        raise Refused("XX and NX options at the same time are not compatible")
    if len(options & {"GT", "LT", "NX"}) > 1:
        raise Refused("GT, LT, and/or NX options at the same time are not compatible")


def _may_change(options: set[str], before: float, new: float) -> bool:
    if "NX" in options or before == new:
        return False
    return not ("GT" in options and new < before) and not ("LT" in options and new > before)


def zrem(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], ZSet)
    if found is None:
        return 0
    count = sum(found.remove(member) for member in words[2:])
    if count:
        db.changed(words[1], found)
    return count


def zscore(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], ZSet)
    number = None if found is None else found.scores.get(words[2])
    return None if number is None else score_text(number)


def zcard(db: Keyspace, words: Words) -> Reply:
    return len(db.find_as(words[1], ZSet) or ())


def zrange(db: Keyspace, words: Words) -> Reply:
    options = {word.upper() for word in words[4:]}
    if options - {"REV", "WITHSCORES"}:
        raise Refused(SYNTAX)
    start, stop = integer(words[2]), integer(words[3])
    order = (db.find_as(words[1], ZSet) or ZSet()).order
    low, high = span(start, stop, len(order))
    if "REV" in options:
        chosen = order[len(order) - high : len(order) - low][::-1]
    else:
        chosen = order[low:high]
    return _listed(chosen, with_scores="WITHSCORES" in options)


def zrangebyscore(db: Keyspace, words: Words) -> Reply:
    with_scores, offset, count = _range_options(words)
    (low, without_low), (high, without_high) = bound(words[2]), bound(words[3])
    found = db.find_as(words[1], ZSet)
    if found is None or offset < 0:
        return []
    chosen = found.between(low, high, without_low=without_low, without_high=without_high)
    stop = None if count < 0 else offset + count
    return _listed(chosen[offset:stop], with_scores=with_scores)


def _range_options(words: Words) -> tuple[bool, int, int]:
    with_scores, offset, count = False, 0, -1
    rest = iter(words[4:])
    for word in rest:
        match word.upper():
            case "WITHSCORES":
                with_scores = True
            case "LIMIT":
                first, second = next(rest, None), next(rest, None)
                if first is None or second is None:
                    raise Refused(SYNTAX)
                offset, count = integer(first), integer(second)
            case _:
                raise Refused(SYNTAX)
    return with_scores, offset, count


def zpopmin(db: Keyspace, words: Words) -> Reply:
    count = integer(words[2], NOT_POSITIVE) if len(words) == 3 else 1
    if len(words) > 3:
        raise Refused(SYNTAX)
    if count < 0:
        raise Refused(NOT_POSITIVE)
    found = db.find_as(words[1], ZSet)
    if found is None or count == 0:
        return []
    taken = found.pop_lowest(count)
    db.changed(words[1], found)
    return _listed(taken, with_scores=True)


def _listed(chosen: Iterable[tuple[float, str]], *, with_scores: bool) -> Reply:
    if with_scores:
        return [word for number, member in chosen for word in (member, score_text(number))]
    return [member for _, member in chosen]
