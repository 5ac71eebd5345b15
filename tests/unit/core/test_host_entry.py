"""What is valid for the fields of a host."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.fleet.hosts.entry import (
    FACTS_BYTES_MAX,
    LABELS_MAX,
    HostEntry,
    check_entry,
    check_facts,
)
from holdfast.errors import InvalidInput


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": "@a"},
        {"name": "!a"},
        {"name": "a\nb"},
        {"name": "hst_1"},
        {"name": "x" * 201},
        {"name": "a", "driver": "pigeon"},
        {"name": "a", "state": "gone"},
        {"name": "a", "state": "odd"},
        {"name": "a", "address": "x" * 501},
        {"name": "a", "labels": {"driver": "x"}},
        {"name": "a", "labels": {"fact.os": "x"}},
        {"name": "a", "labels": {"name": "x"}},
        {"name": "a", "labels": {"0k": "x"}},
        {"name": "a", "labels": {"a b": "x"}},
        {"name": "a", "labels": {"": "x"}},
        {"name": "a", "labels": {"k": "v" * 201}},
        {"name": "a", "labels": {f"k{n}": "v" for n in range(LABELS_MAX + 1)}},
    ],
)
def test_what_is_not_valid_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        check_entry(HostEntry(**fields))


def test_what_is_valid_passes() -> None:
    labels = {f"k{n}": "" for n in range(LABELS_MAX)}
    check_entry(HostEntry(name="web-1.example", driver="ssh", address="[::1]:22", labels=labels))
    check_entry(HostEntry(name="web 1", state="cordoned"))


def test_facts_are_json_of_a_bounded_size() -> None:
    assert check_facts({"os": {"name": "linux"}}) == '{"os":{"name":"linux"}}'
    for facts in ({"a": object()}, {"a": float("nan")}, {"a": "x" * FACTS_BYTES_MAX}):
        with pytest.raises(InvalidInput, match="facts"):
            check_facts(facts)
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"a": deep}
    with pytest.raises(InvalidInput, match="deeper"):
        check_facts(deep)
