"""Nouns after a number."""

from __future__ import annotations

from holdfast.core.plural import noun_for


def test_one_is_one_and_none_are_many() -> None:
    assert [f"{n} {noun_for(n, 'task')}" for n in (0, 1, 2)] == ["0 tasks", "1 task", "2 tasks"]
