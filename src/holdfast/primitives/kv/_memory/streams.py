"""Commands on streams, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.primitives.kv._memory.keyspace import Keyspace
from holdfast.primitives.kv._memory.numbers import integer, unsigned
from holdfast.primitives.kv._memory.values import (
    ID_MAX,
    ID_ZERO,
    PART_MAX,
    Id,
    Stream,
    following,
    id_text,
)
from holdfast.primitives.kv._op import Reply, Words
from holdfast.primitives.kv._problems import (
    BAD_STREAM_ID,
    STREAM_FULL,
    STREAM_ID_OLD,
    STREAM_ID_ZERO,
    SYNTAX,
    TIMEOUT_NEGATIVE,
    TIMEOUT_NOT_AN_INTEGER,
    Refused,
    wrong_arity,
)


def xadd(db: Keyspace, words: Words) -> Reply:
    maxlen, place = _trim_to(words, 2)
    if place == len(words):
        raise Refused(wrong_arity("xadd"))
    wanted = _wanted(words[place])
    fields = list(words[place + 1 :])
    if not fields or len(fields) % 2:
        raise Refused(wrong_arity("xadd"))
    if wanted == ID_ZERO:
        raise Refused(STREAM_ID_ZERO)
    found = db.find_as(words[1], Stream)
    id = _new_id(wanted, found.last if found is not None else ID_ZERO, db)
    if found is None:
        found = db.make(words[1], Stream)
    found.append(id, fields)
    if maxlen is not None:
        found.trim(maxlen)
    db.touch(words[1])
    return id_text(id)


def _wanted(text: str) -> Id | int | None:
    """The whole id, only its milliseconds (`5-*`), or nothing (`*`)."""
    if text == "*":
        return None
    if text.endswith("-*"):
        return unsigned(text[:-2], BAD_STREAM_ID)
    return _id(text, 0)


def _new_id(wanted: Id | int | None, last: Id, db: Keyspace) -> Id:
    if last == ID_MAX:
        raise Refused(STREAM_FULL)
    if isinstance(wanted, tuple):
        id = wanted
    elif wanted is None:
        id = max((db.now_ms(), 0), following(last))
    elif wanted == last[0]:
        if last[1] == PART_MAX:
            raise Refused(STREAM_ID_OLD)
        id = (wanted, last[1] + 1)
    else:
        id = (wanted, 0)
    if id <= last:
        raise Refused(STREAM_ID_OLD)
    return id


def xrange(db: Keyspace, words: Words) -> Reply:
    start, end = _start(words[2]), _end(words[3])
    count: int | None = None
    if len(words) > 4:
        if len(words) != 6 or words[4].upper() != "COUNT":
            raise Refused(SYNTAX)
        count = max(0, integer(words[5]))
    found = db.find_as(words[1], Stream)
    if found is None:
        return []
    return None if count == 0 else _entries(found, found.between(start, end, count))


def xread(db: Keyspace, words: Words) -> Reply:
    """Parses and checks `BLOCK`; `MemoryKV` does the waiting."""
    count, place = _read_options(words)
    keys, ids = _halves(words[place + 1 :])
    after = [_after(db, key, text) for key, text in zip(keys, ids, strict=True)]
    answer: list[Reply] = []
    for key, id in zip(keys, after, strict=True):
        found = db.find_as(key, Stream)
        if found is not None and id < found.last:
            chosen = found.between(following(id), ID_MAX, count)
            if chosen:
                answer.append([key, _entries(found, chosen)])
    return answer or None


def pinned(db: Keyspace, words: Words) -> tuple[Words, Words]:
    """A read that waits, with `$` replaced by the current ids, and its keys."""
    _, place = _read_options(words)
    keys, ids = _halves(words[place + 1 :])
    fixed = (id_text(_after(db, key, text)) for key, text in zip(keys, ids, strict=True))
    return (*words[: place + 1], *keys, *fixed), keys


def _read_options(words: Words) -> tuple[int | None, int]:
    """The count, and the index of `STREAMS`."""
    count: int | None = None
    place = 1
    while place + 1 < len(words):
        match words[place].upper():
            case "STREAMS":
                return count, place
            case "COUNT":
                count = max(0, integer(words[place + 1])) or None
            case "BLOCK":
                if integer(words[place + 1], TIMEOUT_NOT_AN_INTEGER) < 0:
                    raise Refused(TIMEOUT_NEGATIVE)
            case _:
                break
        place += 2
    raise Refused(SYNTAX)


def _halves(rest: Words) -> tuple[Words, Words]:
    """The keys and their ids."""
    if len(rest) % 2:
        raise Refused(
            "Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be "
            "specified."
        )
    half = len(rest) // 2
    return rest[:half], rest[half:]


def _after(db: Keyspace, key: str, text: str) -> Id:
    found = db.find_as(key, Stream)
    if text == "$":
        return ID_ZERO if found is None else found.last
    return _id(text, 0)


def xlen(db: Keyspace, words: Words) -> Reply:
    return len(db.find_as(words[1], Stream) or ())


def xdel(db: Keyspace, words: Words) -> Reply:
    found = db.find_as(words[1], Stream)
    if found is None:
        return 0
    ids = [_id(text, 0) for text in words[2:]]
    count = sum(found.remove(id) for id in ids)
    if count:
        db.touch(words[1])
    return count


def xtrim(db: Keyspace, words: Words) -> Reply:
    maxlen, place = _trim_to(words, 2)
    if maxlen is None or place != len(words):
        raise Refused(SYNTAX)
    found = db.find_as(words[1], Stream)
    count = 0 if found is None else found.trim(maxlen)
    if count:
        db.touch(words[1])
    return count


def _trim_to(words: Words, place: int) -> tuple[int | None, int]:
    """`MAXLEN = n`, if it is at this index, and the next index."""
    if words[place].upper() != "MAXLEN":
        return None, place
    is_exact = len(words) > place + 2 and words[place + 1] == "="
    place += 2 if is_exact else 1
    if place >= len(words):
        raise Refused(SYNTAX)
    maxlen = integer(words[place])
    if maxlen < 0:
        raise Refused("The MAXLEN argument must be >= 0.")
    return maxlen, place + 1


def _entries(found: Stream, ids: Sequence[Id]) -> list[Reply]:
    return [[id_text(id), [*found.fields[id]]] for id in ids]


# -- ids


def _id(text: str, missing: int) -> Id:
    """`ms-number`, or only `ms`."""
    ms, dash, number = text.partition("-")
    return unsigned(ms, BAD_STREAM_ID), unsigned(number, BAD_STREAM_ID) if dash else missing


def _start(text: str) -> Id:
    if text == "-":
        return ID_ZERO
    if text == "+":
        return ID_MAX
    if not text.startswith("("):
        return _id(text, 0)
    id = _id(text[1:], 0)
    if id == ID_MAX:
        raise Refused("invalid start ID for the interval")
    return following(id)


def _end(text: str) -> Id:
    if text == "-":
        return ID_ZERO
    if text == "+":
        return ID_MAX
    if not text.startswith("("):
        return _id(text, PART_MAX)
    ms, number = _id(text[1:], PART_MAX)
    if (ms, number) == ID_ZERO:
        raise Refused("invalid end ID for the interval")
    return (ms, number - 1) if number else (ms - 1, PART_MAX)
