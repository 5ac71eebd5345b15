"""Turns replies of Redis into typed answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from holdfast.errors import StoreUnavailable
from holdfast.primitives.kv._op import Entry, Reply


def text(reply: Reply) -> str:
    return reply if isinstance(reply, str) else _strange(reply)


def maybe_text(reply: Reply) -> str | None:
    return reply if reply is None or isinstance(reply, str) else _strange(reply)


def number(reply: Reply) -> int:
    return reply if isinstance(reply, int) else _strange(reply)


def flag(reply: Reply) -> bool:
    """1 or 0."""
    return reply == 1


def written(reply: Reply) -> bool:
    """OK, or nothing when a condition prevented the write."""
    return reply == "OK"


def done(reply: Reply) -> None:
    """OK, without a value."""


def maybe_float(reply: Reply) -> float | None:
    return None if reply is None else float(text(reply))


def items(reply: Reply) -> list[Reply]:
    """For some commands Redis replies nothing instead of an empty list."""
    if reply is None:
        return []
    return reply if isinstance(reply, list) else _strange(reply)


def texts(reply: Reply) -> list[str]:
    return [text(each) for each in items(reply)]


def maybe_texts(reply: Reply) -> list[str | None]:
    return [maybe_text(each) for each in items(reply)]


def text_set(reply: Reply) -> set[str]:
    return {text(each) for each in items(reply)}


def text_map(reply: Reply) -> dict[str, str]:
    return dict(_pairs(reply))


def scored(reply: Reply) -> list[tuple[str, float]]:
    return [(member, float(score)) for member, score in _pairs(reply)]


def page(reply: Reply) -> tuple[int, list[str]]:
    cursor, found = items(reply)
    return int(text(cursor)), texts(found)


def entries(reply: Reply) -> list[Entry]:
    return [Entry(text(id), text_map(fields)) for id, fields in map(items, items(reply))]


def entries_by_stream(reply: Reply) -> dict[str, list[Entry]]:
    return {text(key): entries(found) for key, found in map(items, items(reply))}


def _pairs(reply: Reply) -> Iterator[tuple[str, str]]:
    flat = iter(texts(reply))
    return zip(flat, flat, strict=True)


def _strange(reply: Reply) -> NoReturn:
    raise StoreUnavailable(f"the server speaks another protocol: it answered {reply!r}")
