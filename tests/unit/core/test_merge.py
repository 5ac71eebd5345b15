"""The joins of concurrent writes: their laws, and replicas that receive the same writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple, TypeVar

import pytest
from hypothesis import given, strategies as st

from holdfast.core.exchange.merge import (
    NO_LABELS,
    Labels,
    LabelTag,
    Progress,
    Stamp,
    Stamped,
    change_labels,
    join_labels,
    join_metadata,
    join_progress,
    join_text,
)

T = TypeVar("T")
names = st.sampled_from(["a", "b", "c"])
small = st.integers(0, 3)
progresses = st.builds(Progress, small, small, st.sampled_from([0.0, 0.5, 1.0]), names)
stamps = st.builds(Stamp, small, names)
tags = st.frozensets(st.builds(LabelTag, names, stamps), max_size=6)
labels = st.builds(Labels, tags, tags)
metadata = st.dictionaries(names, st.builds(Stamped, stamps, names), max_size=3)
texts = st.sampled_from(["x", "y", "z"])


class Join(NamedTuple):
    values: st.SearchStrategy[object]
    join: Callable[..., object]


JOINS = {
    "progress": Join(progresses, join_progress),
    "set": Join(labels, join_labels),
    "map": Join(metadata, join_metadata),
}


@pytest.mark.parametrize("name", JOINS)
@given(st.data())
def test_a_join_is_commutative_associative_and_idempotent(name: str, data: st.DataObject) -> None:
    values, join = JOINS[name]
    a, b, c = data.draw(values), data.draw(values), data.draw(values)
    assert join(a, b) == join(b, a)
    assert join(join(a, b), c) == join(a, join(b, c))
    assert join(a, a) == a
    assert join(join(a, b), b) == join(a, b)


@given(texts, texts, texts)
def test_a_text_joins_symmetrically_with_its_base_as_identity(base: str, a: str, b: str) -> None:
    assert join_text(base, a, b) == join_text(base, b, a)
    assert join_text(base, base, a) == a
    assert join_text(base, a, a) == a
    assert join_text(None, a, b) == (a if a == b else None)
    if len({base, a, b}) == 3:
        assert join_text(base, a, b) is None


class Push(NamedTuple):
    """What one push contributes to each class."""

    progress: Progress
    labels: Labels
    metadata: dict[str, Stamped]


def applied(state: Push, push: Push) -> Push:
    return Push(
        join_progress(state.progress, push.progress),
        join_labels(state.labels, push.labels),
        join_metadata(state.metadata, push.metadata),
    )


EMPTY = Push(Progress(), NO_LABELS, {})
pushes = st.builds(Push, progresses, labels, metadata)


@given(st.data())
def test_replicas_that_receive_the_same_pushes_agree(data: st.DataObject) -> None:
    """In any order and with any repetition."""
    sent = data.draw(st.lists(pushes, min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(sent))))
    repeated = data.draw(st.lists(st.integers(0, len(sent) - 1), max_size=6))
    received = data.draw(st.permutations([*order, *repeated]))
    replica = reduce(applied, (sent[n] for n in received), EMPTY)
    other = reduce(applied, sent, EMPTY)
    assert replica == other
    assert replica.labels.members == other.labels.members


def test_a_later_run_starts_over_and_a_late_report_does_not_turn_it_back() -> None:
    first, second = Progress(1, 9, 1.0, "end"), Progress(2, 0, 0.1, "start")
    assert join_progress(second, first) == second
    assert join_progress(Progress(2, 3, 0.1), Progress(2, 2, 0.9)) == Progress(2, 3, 0.1)


def test_a_removal_takes_back_only_what_its_writer_had_read() -> None:
    def write(state: Labels, version: int, base: int, *, add: str = "", remove: str = "") -> Labels:
        stamp = Stamp(version, f"m{version}")
        change = change_labels(state, add, remove, base_version=base, stamp=stamp)
        return join_labels(state, change)

    first = write(NO_LABELS, 1, 0, add="x")
    assert write(first, 2, 1, remove="x").members == frozenset()
    again = write(first, 2, 1, add="x")
    assert write(again, 3, 1, remove="x").members == {"x"}, "the second addition was not read"
    assert write(again, 3, 2, remove="x").members == frozenset()
    assert write(again, 3, 2, add="x", remove="x").members == {"x"}
