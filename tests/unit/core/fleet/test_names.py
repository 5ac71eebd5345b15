"""Folded names: folding and unfolding are inverse, and texts that stand for no names are refused."""

from __future__ import annotations

import re

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given, strategies as st

from holdfast.core.errors import BadSelector
from holdfast.core.fleet.hosts.names import NAMES_MAX, fold, unfold
from holdfast.core.fleet.hosts.selector_parse import parse

numbers = st.one_of(
    st.integers(0, 120).map(str),
    st.builds("{:0{}d}".format, st.integers(0, 120), st.integers(1, 4)),
)
likely = st.builds("".join, st.tuples(st.sampled_from(["web-", "db", "r", ""]), numbers))
two_parts = st.builds("r{}-n{}".format, numbers, numbers)
odd = st.text(alphabet="a1 0-[],!&^()\"'\\*@=~é😀", min_size=1, max_size=8)
names = st.lists(st.one_of(likely, two_parts, odd), max_size=60)


@given(names)
def test_unfolded_names_are_those_that_were_folded(drawn: list[str]) -> None:
    text = fold(drawn)
    found = unfold(text)
    assert len(found) == len(set(found))
    assert set(found) == set(drawn)


@given(names.filter(bool), st.randoms(use_true_random=False))
def test_equal_sets_have_one_folded_text(drawn: list[str], order: object) -> None:
    shuffled = [*drawn, drawn[0]]
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fold(shuffled) == fold(drawn) == fold(unfold(fold(drawn)))


@given(names.filter(bool))
def test_a_selector_reads_folded_names(drawn: list[str]) -> None:
    assert parse(fold(drawn)).names() == set(drawn)


@given(st.lists(st.one_of(likely.filter(lambda name: not name.isdigit()), two_parts), min_size=1))
def test_cluster_shell_reads_folded_numbers(drawn: list[str]) -> None:
    reference = NodeSet(fold(drawn), resolver=RESOLVER_NOGROUP)
    assert set(reference) == set(drawn)


@given(st.integers(0, 300), st.integers(0, 60), st.integers(1, 9), st.sampled_from([1, 2, 3, 4]))
def test_a_range_is_that_of_cluster_shell(first: int, more: int, step: int, width: int) -> None:
    low, high = f"{first:0{width}d}", f"{first + more:0{width}d}"
    if len(low) != len(high) and "0" in (low[0], high[0]) and low != "0":
        return
    text = f"n[{low}-{high}/{step}]"
    assert set(unfold(text)) == set(NodeSet(text, resolver=RESOLVER_NOGROUP))


@given(st.text(alphabet="ab01-[],/\"' \\", max_size=20))
def test_every_text_is_read_or_refused_at_one_of_its_characters(text: str) -> None:
    try:
        found = unfold(text)
    except BadSelector as error:
        wrong = error
    else:
        assert set(unfold(fold(found))) == set(found)
        return
    assert 0 <= wrong.at <= len(text)
    assert f"column {wrong.at + 1}" in str(wrong)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("a", ["a"]),
        ("a, b,a", ["a", "b"]),
        ("web-[008-010]", ["web-008", "web-009", "web-010"]),
        ("web-[8-10]", ["web-8", "web-9", "web-10"]),
        ("rack[1-4/2]", ["rack1", "rack3"]),
        ("db-[a,b]-[1-2]", ["db-a-1", "db-a-2", "db-b-1", "db-b-2"]),
        ("n[1,3-4,x.y]", ["n1", "n3", "n4", "nx.y"]),
        ('"a b"-[1-2]', ["a b-1", "a b-2"]),
        ("'[1-2]'", ["[1-2]"]),
        (r'"a\"\\b"', ['a"\\b']),
        ("10.0.0.[1-2]", ["10.0.0.1", "10.0.0.2"]),
    ],
)
def test_texts_stand_for_names(text: str, found: list[str]) -> None:
    assert unfold(text) == found


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["web-7"], "web-7"),
        (["web-2", "web-10", "web-1"], "web-[1-2,10]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["8", "9", "10", "08", "09"], "[08-10,8-9]"),
        ([f"r{r}-n{n:02d}" for r in (1, 2) for n in (8, 9, 10)], "r[1-2]-n[08-10]"),
        (["r1-n1", "r1-n2", "r2-n1"], "r1-n[1-2],r2-n1"),
        (["b", "a", "a b"], 'a,"a b",b'),
        ([f"a{i}b{i}c{i}d{i}e{i}" for i in (1, 2)], "a1b1c1d1e1,a2b2c2d2e2"),
    ],
)
def test_names_fold_to_one_text(names: list[str], text: str) -> None:
    assert fold(names) == text


@pytest.mark.parametrize(
    ("text", "at", "hint"),
    [
        ("a,", 2, "a name behind the comma"),
        ("a b", 2, "a comma between names"),
        ("a,,b", 2, "a name"),
        ('""', 0, "a name"),
        ('"a', 0, "closing quote"),
        ('"a\n"', 2, "printable"),
        ("x[", 2, "a number"),
        ("x[1", 1, "a closing bracket"),
        ("x[1;2]", 3, "a comma or a closing bracket"),
        ("x[a-c]", 2, "a range of numbers"),
        ("x[a-1]", 2, "a range of numbers"),
        ("x[3-1]", 2, "the smaller bound first: 1-3"),
        ("x[08-100]", 2, "008-100"),
        ("x[1-9/0]", 2, "a step of at least 1"),
        (f"x[1-{'9' * 19}]", 2, "digits"),
        (f"x[0-{NAMES_MAX}]", 0, "50000 names, not 50001"),
        (f"a,x[1-{NAMES_MAX}]", 2, "50000 names, not 50001"),
        ("x[0-999][0-999]", 0, "not 1000000"),
    ],
)
def test_a_wrong_text_says_where_and_what_fits(text: str, at: int, hint: str) -> None:
    with pytest.raises(BadSelector, match=re.escape(hint)) as caught:
        unfold(text)
    assert caught.value.at == at


def test_as_many_names_as_the_bound_allows() -> None:
    found = unfold(f"x[1-{NAMES_MAX}]")
    assert len(found) == NAMES_MAX
    assert fold(found) == f"x[1-{NAMES_MAX}]"
