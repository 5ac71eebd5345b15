"""Tasks that differ only in id and payload: made in parts, the same as if each were made alone."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from holdfast.core.alike import FIRST_PART, GROWTH, PART_MAX, AlikeTasks, parts_of
from holdfast.core.ids import Ids
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import (
    BATCH_MAX,
    Submission,
    encode_payload,
    encode_payloads,
    submit,
    submit_like,
)
from holdfast.errors import InvalidInput

NOW = 1_800_000_000.0


def model() -> Submission:
    return submit(EnqueueRequest(type="work", payload={}), task_id="m", now=NOW, id_given=False)


def numbered(count: int, made: list[tuple[int, int]]) -> AlikeTasks:
    def texts(start: int, stop: int) -> list[str]:
        made.append((start, stop))
        return [f'{{"n":{n}}}' for n in range(start, stop)]

    return AlikeTasks(model(), count, partial(Ids(random.Random(1)).tasks, NOW), texts)


@given(st.integers(1, BATCH_MAX))
def test_the_parts_follow_each_other_and_grow_within_bounds(count: int) -> None:
    parts = list(parts_of(count))
    assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
    assert parts[-1][1] == count
    sizes = [stop - start for start, stop in parts]
    assert 0 < sizes[0] <= FIRST_PART
    assert all(0 < b <= min(GROWTH * a, PART_MAX) for a, b in pairwise(sizes))


def test_they_are_the_tasks_that_each_request_alone_would_be() -> None:
    group = numbered(5, [])
    like = model()
    each = [submit_like(like, {"n": n}, id, NOW) for n, id in enumerate(group.ids())]
    assert list(group) == each
    assert group[1:3] == each[1:3]
    assert group[-1] == each[-1]
    assert len(group) == 5


def test_each_task_is_made_once_and_only_when_it_is_read() -> None:
    made: list[tuple[int, int]] = []
    group = numbered(10, made)
    assert len(group) == 10
    assert made == []
    first = group.ids(0, 4)
    assert (made, len(first)) == ([(0, 4)], 4)
    assert group.payloads(0, 4) == [f'{{"n":{n}}}' for n in range(4)]
    everything = [submission.task.id for submission in group]
    assert made == [(0, 4), (4, 10)]
    assert everything[:4] == first
    assert [submission.task.id for submission in group] == everything
    assert made == [(0, 4), (4, 10)]


def test_a_part_that_is_refused_may_be_read_again() -> None:
    def texts(start: int, stop: int) -> list[str]:
        if stop > 4:
            raise InvalidInput("no")
        return ["1"] * (stop - start)

    group = AlikeTasks(model(), 8, partial(Ids(random.Random(1)).tasks, NOW), texts)
    first = group.ids(0, 4)
    for _ in range(2):
        with pytest.raises(InvalidInput):
            group.make()
    assert group.ids(0, 4) == first


@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.floats(1.7e9, 1.9e9), st.integers(1, 9_000)), min_size=1, max_size=4),
)
def test_ids_of_batches_are_uuids_that_increase(
    seed: int, batches: list[tuple[float, int]]
) -> None:
    ids = Ids(random.Random(seed))
    made = []
    for now, count in batches:
        made += [ids.task(now), *ids.tasks(now, count), ids.task(now)]
    assert made == sorted(set(made))
    for text in made:
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant, str(parsed)) == (7, uuid.RFC_4122, text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(JSON | st.just({1, 2}) | st.just(object()), max_size=5))
def test_payloads_of_a_batch_are_written_as_each_alone(payloads: list[object]) -> None:
    assert outcome(encode_payloads, payloads) == outcome(_each_alone, payloads)


def _each_alone(payloads: list[object]) -> list[str]:
    return [encode_payload(payload) for payload in payloads]


def outcome(write: Callable[[list[object]], list[str]], payloads: list[object]) -> object:
    try:
        return write(payloads)
    except InvalidInput as error:
        return type(error), str(error)
