"""Commands on streams: entries with increasing ids (`milliseconds-number`)."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.primitives.kv import _read as read
from holdfast.primitives.kv._op import Entry, Op
from holdfast.primitives.kv._words import mapped, pairs, pause, whole


def xadd(
    key: str, fields: Mapping[str, str], *, id: str = "*", maxlen: int | None = None
) -> Op[str]:
    """Append an entry. Returns its id. `*` uses the time of the store. `maxlen` drops the oldest entries
    beyond it."""
    trim = () if maxlen is None else ("MAXLEN", "=", whole(maxlen))
    return Op(("XADD", key, *trim, id, *pairs(fields)), read.text)


def xrange(
    key: str, start: str = "-", end: str = "+", *, count: int | None = None
) -> Op[list[Entry]]:
    """Entries from id `start` to id `end`, inclusive; "(id" excludes that id."""
    return Op(("XRANGE", key, start, end, *_count(count)), read.entries)


def xread(
    streams: Mapping[str, str], *, count: int | None = None, block_ms: int | None = None
) -> Op[dict[str, list[Entry]]]:
    """The entries of each stream after the given id (`$`: its last one), at most `count` of each.
    `block_ms`: how long to wait for an entry when there is none; a transaction does not wait."""
    block = () if block_ms is None else ("BLOCK", pause(block_ms))
    words = ("XREAD", *_count(count), *block, "STREAMS", *mapped(streams), *streams.values())
    return Op(words, read.entries_by_stream)


def xlen(key: str) -> Op[int]:
    """The number of entries."""
    return Op(("XLEN", key), read.number)


def xdel(key: str, *ids: str) -> Op[int]:
    """Delete entries. Returns how many existed. An empty stream remains, with its last id."""
    return Op(("XDEL", key, *ids), read.number)


def xtrim(key: str, maxlen: int) -> Op[int]:
    """Drop the oldest entries beyond `maxlen`. Returns how many were dropped."""
    return Op(("XTRIM", key, "MAXLEN", "=", whole(maxlen)), read.number)


def _count(count: int | None) -> tuple[str, ...]:
    return () if count is None else ("COUNT", whole(count))
