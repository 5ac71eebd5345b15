"""The order of the tests: nothing is lost, files stay together, long tests do not come last."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given, strategies as st

from tests.spread import spread

HEAVY = frozenset({"h"})


def file_of(item: tuple[str, int]) -> str:
    return item[0]


@given(st.lists(st.tuples(st.sampled_from("abchde"), st.integers(1, 5)), unique_by=lambda f: f[0]))
def test_files_stay_together_and_nothing_is_lost(files: list[tuple[str, int]]) -> None:
    items = [(name, n) for name, count in files for n in range(count)]
    ordered = spread(items, file_of, HEAVY)
    assert sorted(ordered) == sorted(items)
    light = [item for item in ordered if item[0] != "h"]
    assert light == [item for item in items if item[0] != "h"]
    assert [item for item in ordered if item[0] == "h"] == [i for i in items if i[0] == "h"]
    parts = [name for name, _ in groupby(ordered, key=file_of) if name != "h"]
    assert len(parts) == len(set(parts))


def test_long_tests_are_at_even_distances() -> None:
    items = [(name, n) for name in "abcdh" for n in range(4)]
    ordered = spread(items, file_of, HEAVY)
    assert [n for n, item in enumerate(ordered) if item[0] == "h"] == [0, 5, 10, 15]
