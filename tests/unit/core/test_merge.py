"""The joins of concurrent writes: their laws, and replicas that receive the same writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import NamedTuple, TypeVar

import pytest
from hypothesis import example, given, strategies as st

from holdfast.core.merge import (
    NO_LABELS,
    Chunk,
    Labels,
    LabelTag,
    MetricKey,
    OutputKey,
    OutputMismatch,
    Progress,
    Stamp,
    Stamped,
    change_labels,
    join_chunks,
    join_labels,
    join_metadata,
    join_metrics,
    join_output,
    join_progress,
    join_text,
    totals,
)

T = TypeVar("T")
OutputLog = dict[OutputKey, tuple[Chunk, ...]]
names = st.sampled_from(["a", "b", "c"])
small = st.integers(0, 3)
amounts = st.floats(0, 1e6) | st.integers(0, 5).map(float)
progresses = st.builds(Progress, small, small, st.sampled_from([0.0, 0.5, 1.0]), names)
metrics = st.dictionaries(st.builds(MetricKey, names, names, small), amounts, max_size=6)
stamps = st.builds(Stamp, small, names)
tags = st.frozensets(st.builds(LabelTag, names, stamps), max_size=6)
labels = st.builds(Labels, tags, tags)
metadata = st.dictionaries(names, st.builds(Stamped, stamps, names), max_size=3)
texts = st.sampled_from(["x", "y", "z"])

KEYS = [OutputKey(fence, stream) for fence in (1, 2) for stream in ("stdout", "log")]
WRITTEN = bytes(range(8))
"""What the writer of a stream wrote; each key has its own rotation."""


def written(key: OutputKey) -> bytes:
    turn = KEYS.index(key)
    return WRITTEN[turn:] + WRITTEN[:turn]


@st.composite
def outputs(draw: st.DrawFn) -> OutputLog:
    """Parts of streams with one writer each."""
    output: OutputLog = {}
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True)):
        spans = draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=4))
        chunks = [Chunk(start, written(key)[start:end]) for start, end in spans]
        joined = join_chunks(chunks)
        assert not isinstance(joined, int)
        output[key] = joined
    return output


def join_written(a: OutputLog, b: OutputLog) -> OutputLog:
    joined = join_output(a, b)
    assert not isinstance(joined, OutputMismatch)
    return joined


class Join(NamedTuple):
    values: st.SearchStrategy[object]
    join: Callable[..., object]


JOINS = {
    "progress": Join(progresses, join_progress),
    "counter": Join(metrics, join_metrics),
    "log": Join(outputs(), join_written),
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
    metrics: dict[MetricKey, float]
    output: OutputLog
    labels: Labels
    metadata: dict[str, Stamped]


def applied(state: Push, push: Push) -> Push:
    return Push(
        join_progress(state.progress, push.progress),
        join_metrics(state.metrics, push.metrics),
        join_written(state.output, push.output),
        join_labels(state.labels, push.labels),
        join_metadata(state.metadata, push.metadata),
    )


EMPTY = Push(Progress(), {}, {}, NO_LABELS, {})
pushes = st.builds(Push, progresses, metrics, outputs(), labels, metadata)


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
    assert totals(replica.metrics) == totals(other.metrics)
    assert replica.labels.members == other.labels.members


def test_a_later_run_starts_over_and_a_late_report_does_not_turn_it_back() -> None:
    first, second = Progress(1, 9, 1.0, "end"), Progress(2, 0, 0.1, "start")
    assert join_progress(second, first) == second
    assert join_progress(Progress(2, 3, 0.1), Progress(2, 2, 0.9)) == Progress(2, 3, 0.1)


def test_counters_of_all_runs_add_up_and_repeats_do_not() -> None:
    run, rerun, other = (MetricKey("tokens", n, f) for n, f in (("a", 1), ("a", 2), ("b", 1)))
    counted = join_metrics({run: 10.0, other: 5.0}, {run: 12.0, rerun: 1.0})
    assert totals(join_metrics(counted, {run: 10.0})) == {"tokens": 18.0}


def test_a_total_does_not_depend_on_the_order_of_its_runs() -> None:
    cost = {MetricKey("cost", "a", fence): fence / 10 for fence in (1, 2, 3)}
    assert totals(cost) == totals(dict(reversed(cost.items()))) == {"cost": 0.6}


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8))))
@example([(2, 4), (0, 2)])
def test_chunks_join_to_what_was_written(spans: list[tuple[int, int]]) -> None:
    key = KEYS[0]
    chunks = join_chunks(Chunk(start, written(key)[start:end]) for start, end in spans)
    assert not isinstance(chunks, int)
    covered = {offset for start, end in spans for offset in range(start, end)}
    assert {o for chunk in chunks for o in range(chunk.start, chunk.end)} == covered
    assert all(chunk.data == written(key)[chunk.start : chunk.end] for chunk in chunks)
    gaps = [right.start - left.end for left, right in pairwise(chunks)]
    assert all(gap > 0 for gap in gaps), "chunks that touch are one"


def test_output_that_differs_at_one_offset_is_a_mismatch_on_both_sides() -> None:
    key = KEYS[0]
    ours, theirs = {key: (Chunk(0, b"abcdef"),)}, {key: (Chunk(2, b"cdX"),)}
    assert join_output(ours, theirs) == OutputMismatch(key, 4)
    assert join_output(theirs, ours) == OutputMismatch(key, 4)


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
