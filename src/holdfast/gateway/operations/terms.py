"""Queries of lists with few keys: `key:value`, separated by spaces. Tasks have the whole language
(`core/search`)."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.errors import InvalidInput


def read_terms(q: str, keys: Collection[str], usage: str) -> dict[str, str]:
    """The values by key. InvalidInput says how the list is queried."""
    terms: dict[str, str] = {}
    for term in q.split():
        key, colon, value = term.partition(":")
        if not colon or key not in keys or not value:
            raise InvalidInput(f"q has {term!r}: use {usage}")
        terms[key] = value
    return terms
