"""Turns of keys: shares, the wait of a new key, no credit for an idle key, whatever the sizes of claims."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, strategies as st

from holdfast.core.turns import Line, Turn, deal

KEYS = st.sampled_from("abcdefg")
TURNS = st.builds(Turn, KEYS | st.just(""), st.integers(0, 6))
WEIGHTS = st.dictionaries(KEYS, st.integers(1, 5), min_size=1)


def lines_of(weights: dict[str, int], ready: dict[str, int]) -> list[Line]:
    return [Line(key, weights[key], n) for key, n in sorted(ready.items()) if n]


@given(TURNS, WEIGHTS, st.integers(0, 60))
def test_shares_of_keys_that_all_wait_follow_their_weights(
    turn: Turn, weights: dict[str, int], slots: int
) -> None:
    keys = deal(turn, lines_of(weights, dict.fromkeys(weights, slots)), slots).keys
    total = sum(weights.values())
    for begin in range(slots):
        started: Counter[str] = Counter()
        for n, key in enumerate(keys[begin:], 1):
            started[key] += 1
            for each, weight in weights.items():
                assert abs(started[each] - n * weight / total) < weight


@given(TURNS, WEIGHTS, KEYS, st.integers(0, 40))
def test_a_new_key_waits_for_one_turn_of_each_other(
    turn: Turn, weights: dict[str, int], new: str, before: int
) -> None:
    others = {key: weight for key, weight in weights.items() if key != new}
    waiting = lines_of(others, dict.fromkeys(others, 1_000))
    turn = deal(turn, waiting, before).turn
    line = sorted([*waiting, Line(new, weights.get(new, 1), 1)])
    keys = deal(turn, line, sum(others.values()) + 1).keys
    assert new in keys


@given(TURNS, WEIGHTS, st.data())
def test_the_sizes_of_claims_do_not_matter(
    turn: Turn, weights: dict[str, int], data: st.DataObject
) -> None:
    ready = {key: data.draw(st.integers(0, 12), label=key) for key in weights}
    total = sum(ready.values())
    whole = deal(turn, lines_of(weights, ready), total).keys
    left = dict(ready)
    parts: list[str] = []
    while len(parts) < total:
        size = data.draw(st.integers(1, total))
        dealt = deal(turn, lines_of(weights, left), size)
        turn, parts = dealt.turn, parts + dealt.keys
        for key in dealt.keys:
            left[key] -= 1
    assert parts == whole
    assert Counter(whole) == Counter({key: n for key, n in ready.items() if n})


@given(TURNS, WEIGHTS, st.integers(1, 30))
def test_an_idle_key_gathers_no_credit(turn: Turn, weights: dict[str, int], idle: int) -> None:
    """However long a key was away, its first turn is no longer than its weight."""
    others = sorted(weights)[1:]
    waiting = lines_of(weights, dict.fromkeys(others, 1_000))
    turn = deal(turn, waiting, idle).turn if waiting else turn
    keys = deal(turn, lines_of(weights, dict.fromkeys(weights, 1_000)), 100).keys
    changes = [0, *(n for n, pair in enumerate(pairwise(keys), 1) if pair[0] != pair[1]), 100]
    if others:
        for begin, end in pairwise(changes):
            assert end - begin <= weights[keys[begin]]


def test_nothing_waits() -> None:
    assert deal(Turn("b", 1), [], 5) == ([], Turn("b", 1))
    assert deal(Turn("b", 1), [Line("a", 1, 3)], 0) == ([], Turn("b", 1))
