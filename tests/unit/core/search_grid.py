"""Every test of a list against every value of a list: what a drawn pair would rarely meet.

The lists hold what patterns, collations, JSON and floating point treat specially.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.core.search.tree import (
    Between,
    Compare,
    Comparison,
    Contains,
    Exact,
    Glob,
    Not,
    Query,
    Term,
    Test,
)
from tests.unit.core.search_support import COLUMNS, NOW

TEXTS = [
    "", "a", "A", "ab", "aB", "b", "*", "a*b", "?", "a?b", "[", "[a]", "]", "%", "_", "a%b", "a_b",
    "\\", "a\\b", "é", "É", "aéb", "\ud7ff", "\ue000", "😀", "true", "false", "1", "1.0", "-1", "0.5",
    "null", "a.b", "a b",
]  # fmt: skip
NUMBERS = ["-1", "0", "0.5", "1", "1.0", "1.25", "2", "999999999999999"]
SCALARS = [
    None, True, False, 0, 1, 1.0, -1, 0.5, 1.25, 1.2500000000000002, 2**53, 2**60, 2**70,
    -(10**30), 999999999999999, [], [1], ["a"], {}, {"b": "a"},
]  # fmt: skip
MOMENTS = [
    "now",
    "-1h",
    "+10m",
    "2025-11-15",
    "2025-11-15T20:07",
    "2025-11-15T20:07:31",
    "2025-11-15T20:07:31.500Z",
]
DATES = MOMENTS[3:]
DURATIONS = ["0s", "1h", "1h30m", "1d"]
MIDNIGHT = 1_763_164_800.0
TIMES = [
    None, 0.0, MIDNIGHT, MIDNIGHT - 0.5, MIDNIGHT + 86_400, MIDNIGHT + 86_399.9, NOW, NOW - 0.5, NOW + 0.5,
    NOW + 0.0005, NOW + 0.001, NOW - 31.5, NOW + 28.5, NOW - 3600, NOW - 3600.5, NOW - 5400, NOW - 86_400,
    NOW + 600, NOW + 600.5,
]  # fmt: skip


class Group(NamedTuple):
    """Tests of one key, and rows with all the values that it is tried on."""

    key: str
    path: tuple[str, ...]
    tests: list[Test]
    rows: list[dict[str, Any]]

    def queries(self) -> Iterator[Query]:
        for test in self.tests:
            term = Term(self.key, (test,), self.path)
            yield from (Query(term), Query(Not(term)))


def _text_tests() -> list[Test]:
    tests: list[Test] = [Glob(("", ""))]
    for text in TEXTS:
        tests += [
            Exact(text),
            Contains(text),
            Glob((text, "")),
            Glob(("", text)),
            Glob(("a", text)),
        ]
        tests += [Glob(("", text, "")), Glob((text, "b"))] if text else []
    return tests


def _range_tests(bounds: list[str]) -> list[Test]:
    compared = itertools.product(Comparison, bounds)
    return [
        *(Compare(comparison, bound) for comparison, bound in compared),
        *(Between(low, high) for low, high in itertools.product(bounds, bounds)),
        Glob(("", "")),
    ]


def _exact(texts: list[str]) -> list[Test]:
    return [Exact(text) for text in texts]


def _group(key: str, tests: list[Test], values: list[Any], column: str = "") -> Group:
    empty = dict.fromkeys(COLUMNS)
    return Group(key, (), tests, [{**empty, column or key: value} for value in values])


def groups() -> list[Group]:
    documents: list[Any] = [{"a": value} for value in [*TEXTS, *SCALARS]]
    documents += [None, "a", [], {}, {"b": 1}]
    json = _group("args", [*_text_tests(), *_exact(NUMBERS), *_range_tests(NUMBERS)], documents)
    whole = [None, -1, 0, 1, 2, 3, 999999999999999]
    return [
        _group("error", _text_tests(), [None, *TEXTS]),
        _group("tag", _text_tests(), [None, [], *([text] for text in TEXTS), ["a", "é"]]),
        json._replace(path=("a",)),
        _group("attempt", [*_exact(NUMBERS), *_range_tests(NUMBERS)], whole),
        _group("priority", [*_exact(["high"]), *_range_tests(["critical", "normal"])], whole),
        _group("created", [*_exact(DATES), *_range_tests(MOMENTS)], TIMES),
        _group("age", _range_tests(DURATIONS), TIMES, "created"),
        _group("lock", [*_exact(["held", "expired"]), Glob(("", ""))], TIMES),
    ]
