"""The order of the tests: nothing is lost, files stay together, long tests do not come last."""

from __future__ import annotations

from functools import partial
from itertools import groupby

import pytest
from hypothesis import given, strategies as st

from tests.spread import spread

ordered_by = partial(
    spread,
    file_of=lambda item: item[0],
    heavy=lambda file: file == "h",
    long=lambda file: file in "xyz",
)
FILES = st.lists(
    st.tuples(st.sampled_from("abchdexyz"), st.integers(1, 5)), unique_by=lambda file: file[0]
)


@given(FILES, st.integers(1, 5))
def test_nothing_is_lost_and_files_are_cut_between_processes_only(
    files: list[tuple[str, int]], processes: int
) -> None:
    items = [(name, n) for name, count in files for n in range(count)]
    ordered = ordered_by(items, processes=processes)
    assert sorted(ordered) == sorted(items)
    light = [item for item in ordered if item[0] not in "hxyz"]
    assert light == [item for item in items if item[0] not in "hxyz"]
    parts = [name for name, _ in groupby([i for i in ordered if i[0] != "h"], key=lambda i: i[0])]
    assert len(parts) < len(set(parts)) + processes


@given(FILES)
def test_one_process_has_every_file_whole_and_long_ones_first(
    files: list[tuple[str, int]],
) -> None:
    items = [(name, n) for name, count in files for n in range(count)]
    ordered = ordered_by(items)
    long = [item for item in items if item[0] in "xyz"]
    assert ordered[: len(long)] == long
    assert [item for item in ordered if item[0] == "h"] == [i for i in items if i[0] == "h"]


def test_heavy_tests_are_at_even_distances_and_not_at_the_end() -> None:
    items = [(name, n) for name in "abcdh" for n in range(4)]
    ordered = ordered_by(items)
    assert [n for n, item in enumerate(ordered) if item[0] == "h"] == [0, 4, 8, 12]


@pytest.mark.parametrize("processes", [2, 4])
def test_each_process_has_a_part_of_what_is_long(processes: int) -> None:
    items = [(name, n) for name in "abcdhxyz" for n in range(4)]
    ordered = ordered_by(items, processes=processes)
    size = len(items) // processes
    for number in range(processes):
        part = {name for name, _ in ordered[number * size : (number + 1) * size]}
        assert "h" in part
        assert part & set("abcd")
