"""Ids, codec, failures, events, requests and errors as pure values."""

from __future__ import annotations

import json
import math
import random
import uuid
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, strategies as st

from holdfast.core import codec, failure
from holdfast.core.dependency import Edge
from holdfast.core.event import Event, Position, with_result
from holdfast.core.ids import Ids
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import EDGES_MAX, PAYLOAD_BYTES_MAX, encode_payload, submit
from holdfast.core.task import Failure, FailureKind, Status, TaskOptions
from holdfast.errors import (
    HoldfastError,
    InvalidInput,
    PayloadTooLarge,
    UnknownPriority,
    UnserialisablePayload,
)
from tests.error_tree import in_order, modules

NOW = 1_800_000_000.0
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)

# -- ids ---------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 4e9), min_size=2, max_size=200), st.integers())
def test_ids_rise_with_any_clock(times: list[float], seed: int) -> None:
    ids = Ids(random.Random(seed))
    made = [ids.task(now) for now in times]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(uuid.UUID(task_id).version == 7 for task_id in made)


def test_ids_rise_while_the_clock_stands_still() -> None:
    ids = Ids(random.Random(1))
    made = [ids.task(NOW) for _ in range(10_000)]
    assert made == sorted(set(made))
    assert uuid.UUID(made[0]).int >> 80 == int(NOW * 1000)


def test_ids_follow_the_seed() -> None:
    assert Ids(random.Random(5)).task(NOW) == Ids(random.Random(5)).task(NOW)
    assert Ids(random.Random(5)).task(NOW) != Ids(random.Random(6)).task(NOW)


def test_record_ids_fit_a_bigint_and_differ() -> None:
    ids = Ids(random.Random(1))
    made = {ids.record(NOW) for _ in range(10_000)}
    assert len(made) == 10_000
    assert all(0 < record_id < 2**63 for record_id in made)
    assert Ids(random.Random(2)).record(4e9) < 2**63


# -- codec -------------------------------------------------------------------------------------------


@given(json_values)
def test_json_survives_a_round_trip(value: object) -> None:
    assert codec.loads(codec.dumps(value)) == value
    assert json.loads(codec.dumps(value)) == value


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_json_is_canonical(value: dict[str, int]) -> None:
    backwards = dict(reversed(list(value.items())))
    assert codec.dumps(value) == codec.dumps(backwards)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused(bad: float) -> None:
    for value in (bad, [bad], {"a": {"b": (1, bad)}}, {"a": [None, bad]}):
        with pytest.raises(ValueError, match="not a JSON number"):
            codec.dumps(value)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_inside_of_other_values_is_refused(bad: float) -> None:
    """The encoder knows these types, and would write null."""

    @dataclass
    class Point:
        x: float | None

    for value in (Point(bad), {"a": [Point(bad)]}, {bad}, [frozenset({1.0, bad})]):
        with pytest.raises(ValueError, match="not a JSON number"):
            codec.dumps(value)
    assert codec.dumps({"a": Point(None), "b": {None}}) == '{"a":{"x":null},"b":[null]}'
    assert codec.dumps([None, msgspec.Raw(b"1")]) == "[null,1]"


def test_json_in_json_is_written_as_it_is() -> None:
    assert codec.dumps({"a": msgspec.Raw(b'{"b":null}'), "c": None}) == '{"a":{"b":null},"c":null}'


def test_what_cannot_be_written_is_named() -> None:
    with pytest.raises(
        UnserialisablePayload, match=r"^'b' in the payload cannot be written as JSON"
    ):
        encode_payload({"a": 1, "b": [math.nan]})
    with pytest.raises(
        UnserialisablePayload, match=r"^the result cannot be .*: object is not a JSON"
    ):
        encode_payload([object()], what="result")


def test_subclasses_of_str_are_written_as_strings() -> None:
    class Name(str):
        __slots__ = ()

    assert codec.dumps({"id": Name("x")}) == '{"id":"x"}'
    with pytest.raises(TypeError, match="not a JSON value"):
        codec.dumps({"x": object()})


@pytest.mark.parametrize("value", [{1: 2}, {"a": [{"b": {1: 2}}]}, ({1: 2},)])
def test_a_key_that_is_not_a_string_is_named(value: object) -> None:
    with pytest.raises(TypeError, match=r"^dict key 1 is not a string, as JSON requires$"):
        codec.dumps(value)


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_digests_of_different_texts_differ(one: list[str], two: list[str]) -> None:
    assert (codec.digest(*one) == codec.digest(*two)) == (one == two)


# -- failures ----------------------------------------------------------------------------------------


def caught(error: Exception) -> Failure:
    try:
        raise error
    except Exception as found:
        return failure.from_exception("work", found)


def test_equal_causes_share_a_fingerprint() -> None:
    one = caught(ValueError("order 17 of 'ann' at 0x7f00 failed"))
    two = caught(ValueError("order 99 of 'bob' at 0x8a11 failed"))
    assert one.fingerprint == two.fingerprint
    assert one.fingerprint != caught(ValueError("another thing")).fingerprint
    assert one.fingerprint != caught(TypeError("order 17 of 'ann' at 0x7f00 failed")).fingerprint
    other_type = failure.fingerprint("mail", "ValueError", "order 17")
    assert other_type != failure.fingerprint("work", "ValueError", "order 17")


def test_evidence_is_bounded() -> None:
    recorded = caught(ValueError("x" * 100_000))
    assert len(recorded.message) == failure.MESSAGE_CHARS_MAX
    assert len(recorded.traceback) <= failure.TRACEBACK_CHARS_MAX
    assert (recorded.kind, recorded.error_type) == (FailureKind.ERROR, "ValueError")
    assert caught(ValueError()).message == "ValueError"


@pytest.mark.parametrize("text", ["\udc80 in a file name", "zero \x00", "\ud83d half of a pair"])
def test_any_message_can_be_stored(text: str) -> None:
    """File names on Linux are bytes. Undecodable ones appear in messages as lone surrogates."""
    for recorded in (caught(OSError(text)), failure.plain("work", FailureKind.ERROR, text)):
        assert codec.loads(codec.dumps(recorded))["message"]


def test_an_error_whose_message_cannot_be_read_is_recorded() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert caught(Mute()).error_type.endswith("Mute")


# -- events ------------------------------------------------------------------------------------------


@given(st.text(min_size=1), st.integers(0, 2**60))
def test_a_position_survives_a_round_trip(epoch: str, offset: int) -> None:
    assert Position.parse(str(Position(epoch, offset))) == Position(epoch, offset)


@pytest.mark.parametrize("text", ["", "x", ":1", "x:", "x:y", "x:-1", "x:1.5", "x:²"])
def test_invalid_positions(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        Position.parse(text)


def test_the_fields_of_an_event() -> None:
    event = Event(Position("e", 1), "task.failed", NOW, "t", "work", {"attempt": 2})
    assert event.attempt == 2
    with pytest.raises(AttributeError, match=r"task\.failed.*no field 'nothing'"):
        _ = event.nothing


def test_long_results_are_left_out_of_events() -> None:
    assert with_result({}, None) == {"result": None} == with_result({}, "null")
    assert with_result({}, '"' + "x" * 5000 + '"') == {"result_omitted": True}
    assert msgspec.json.encode(with_result({}, "[1]")) == b'{"result":[1]}'


# -- requests ----------------------------------------------------------------------------------------


def made(**fields: object) -> object:
    return submit(EnqueueRequest(**({"type": "work"} | fields)), task_id="t", now=NOW)  # type: ignore[arg-type]


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)
BAD: dict[str, tuple[dict[str, object], type[HoldfastError]]] = {
    "no type": ({"type": ""}, InvalidInput),
    "a long type": ({"type": "x" * 201}, InvalidInput),
    "a type with a line break": ({"type": "a\nb"}, InvalidInput),
    "a type that is no text": ({"type": 5}, InvalidInput),
    "no queue": ({"queue": ""}, InvalidInput),
    "a key that is too long": ({"idempotency_key": "k" * 201}, InvalidInput),
    "an empty key": ({"idempotency_key": ""}, InvalidInput),
    "no attempts": ({"max_attempts": 0}, InvalidInput),
    "attempts as text": ({"max_attempts": "3"}, InvalidInput),
    "half an attempt": ({"max_attempts": 1.5}, InvalidInput),
    "more attempts than a store can count": ({"max_attempts": 2**40}, InvalidInput),
    "a negative delay": ({"delay_seconds": -1}, InvalidInput),
    "an endless delay": ({"delay_seconds": math.inf}, InvalidInput),
    "no number as delay": ({"delay_seconds": math.nan}, InvalidInput),
    "a text as delay": ({"delay_seconds": "5"}, InvalidInput),
    "a delay beyond reason": ({"delay_seconds": 1e12}, InvalidInput),
    "an unknown priority": ({"priority": "urgent"}, UnknownPriority),
    "a priority out of range": ({"priority": 9}, UnknownPriority),
    "a payload with an object": ({"payload": object()}, UnserialisablePayload),
    "a payload with NaN": ({"payload": [math.nan]}, UnserialisablePayload),
    "a payload with half a character": ({"payload": "\ud800"}, UnserialisablePayload),
    "a payload in a circle": ({"payload": CIRCLE}, UnserialisablePayload),
    "a payload that is too large": ({"payload": "x" * PAYLOAD_BYTES_MAX}, PayloadTooLarge),
    "metadata that are too large": ({"metadata": {"x": "y" * 20_000}}, PayloadTooLarge),
    "metadata with an object": ({"metadata": {"x": object()}}, UnserialisablePayload),
    "metadata that are a list": ({"metadata": ["x"]}, InvalidInput),
    "too many parents": (
        {"depends_on": tuple(Edge(str(n)) for n in range(EDGES_MAX + 1))},
        InvalidInput,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_typed_error(name: str) -> None:
    fields, error = BAD[name]
    with pytest.raises(error) as caught_error:
        made(**fields)
    assert str(caught_error.value)
    assert caught_error.type is error


def test_a_bad_id() -> None:
    for task_id in ("", "x" * 201, "a\x00"):
        with pytest.raises(InvalidInput, match="id"):
            submit(EnqueueRequest(type="work"), task_id=task_id, now=NOW)


def test_the_row_of_a_request() -> None:
    request = EnqueueRequest(
        type="work",
        payload={"b": 1, "a": 2},
        delay_seconds=5,
        depends_on=(Edge("p"),),
        options=TaskOptions(timeout_seconds=3.0),
    )
    submission = submit(request, task_id="t", now=NOW)
    task = submission.task
    assert (task.status, task.waiting_on, task.due_at) == (Status.BLOCKED, 1, NOW + 5)
    assert task.payload_json == '{"a":2,"b":1}'
    assert task.options.timeout_seconds == 3.0
    assert not submission.is_plain
    plain = EnqueueRequest(type="work")
    assert submit(plain, task_id="t", now=NOW, id_given=False).is_plain
    assert not submit(plain, task_id="t", now=NOW).is_plain, "the caller may repeat its id"


def test_the_size_of_a_payload_is_counted_in_bytes() -> None:
    fits = "x" * (PAYLOAD_BYTES_MAX - 2)
    assert len(encode_payload(fits)) == PAYLOAD_BYTES_MAX
    with pytest.raises(PayloadTooLarge, match="limit is 262144"):
        encode_payload("ü" * (PAYLOAD_BYTES_MAX // 2))


# -- errors ------------------------------------------------------------------------------------------


def test_every_error_says_how_it_looks() -> None:
    codes = [error.code for error in in_order()]
    assert sorted(codes) == sorted(set(codes)), "each class has a different code"
    for error in in_order():
        assert 400 <= error.http_status < 600
        assert error.exit_code > 0
        assert error.grpc_status.isupper()
        assert isinstance(error.retryable, bool)
        assert error.__doc__, f"{error} says what happened"


def test_every_error_is_in_the_module_of_its_part() -> None:
    places = {
        *("errors", "core.errors", "orders.errors", "sync.errors"),
        *("primitives.kv.errors", "primitives.locks.errors"),
    }
    assert set(modules()) == {f"holdfast.{place}" for place in places}
    assert {error.__module__ for error in in_order()} == set(modules())
