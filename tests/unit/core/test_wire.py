"""Values as they travel."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, strategies as st

from holdfast.core.event import Position
from holdfast.core.wire import (
    CURSOR_CHARS_MAX,
    TIME_MAX,
    WHOLE_MAX,
    check_new_id,
    check_project,
    make_cursor,
    parse_cursor,
    parse_position,
    parse_time,
    preview,
    time_text,
)
from holdfast.errors import InvalidInput

utf8 = st.text(st.characters(codec="utf-8"))
scalars = st.one_of(
    st.none(), utf8, st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)
)
cursors = st.lists(scalars, max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_794_773_251.123, "2026-11-15T20:07:31.123Z"),
        (1_794_773_251.9999, "2026-11-15T20:07:31.999Z"),
        (TIME_MAX, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_a_time_is_rfc_3339(at: float, text: str) -> None:
    assert time_text(at) == text


@given(st.floats(0, TIME_MAX) | st.integers(0, 2**31).map(lambda second: second + 0.999_999_7))
def test_a_time_keeps_its_milliseconds(at: float) -> None:
    text = time_text(at)
    assert text[:-1] == datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert abs(datetime.fromisoformat(text).timestamp() - at) < 0.0011


@given(st.integers(0, int(TIME_MAX) * 1_000))
def test_a_time_is_read_as_it_was_written(milliseconds: int) -> None:
    assert parse_time("at", time_text(milliseconds / 1_000)) == pytest.approx(
        milliseconds / 1_000, abs=0.002
    )
    assert parse_time("at", "2026-11-15T21:07:31+01:00") == parse_time("at", "2026-11-15T20:07:31Z")


@given(st.text(max_size=15) | st.text(min_size=65) | st.none() | st.integers())
@example("2026-11-15T20:07:31")
@example("0001-01-01T00:00:00+23:59")
@example("1969-12-31T23:59:59Z")
@example("2026-11-15")
def test_what_is_no_time_is_refused(text: object) -> None:
    with pytest.raises(InvalidInput, match=r"^at "):
        parse_time("at", text)


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, TIME_MAX + 2])
def test_a_time_outside_the_calendar_is_refused(at: float) -> None:
    with pytest.raises(InvalidInput):
        time_text(at)


@given(
    st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=40),
    st.integers(0, WHOLE_MAX),
)
def test_a_position_is_read_as_it_was_written(epoch: str, offset: int) -> None:
    position = Position(epoch, offset)
    assert parse_position("after", str(position)) == position


@pytest.mark.parametrize(
    "text",
    ["", "7", ":7", "e:", "e:-1", "e:٣", f"e:{2**53}", "e\n:1", "e" * 200 + ":1", 7, None],
)  # fmt: skip
def test_what_is_no_position_is_refused(text: object) -> None:
    with pytest.raises(InvalidInput, match=r"after .* is not a position"):
        parse_position("after", text)


@given(cursors, utf8, st.binary(max_size=100))
def test_a_cursor_gives_its_values_back(
    values: tuple[str | int | float | None, ...], of: str, key: bytes
) -> None:
    text = make_cursor(values, of=of, key=key)
    assert re.fullmatch("[A-Za-z0-9_-]+", text)
    if len(text) <= CURSOR_CHARS_MAX:
        read = parse_cursor(text, of=of, key=key)
        assert read == values
        assert [type(each) for each in read] == [type(each) for each in values]


@given(st.data())
def test_a_changed_cursor_is_refused(data: st.DataObject) -> None:
    text = make_cursor((1_763_237_251.5, "0199ab"), of="tasks")
    at = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.sampled_from("ABab01-_=+/ é"))
    variants = {
        text[:at] + char + text[at + 1 :],
        text[:at] + text[at + 1 :],
        text[:at] + char + text[at:],
    }
    for variant in variants - {text}:
        with pytest.raises(InvalidInput, match="is not a cursor of this list"):
            parse_cursor(variant, of="tasks")


@given(st.text())
def test_every_text_is_no_cursor(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_cursor(text, of="tasks")


def test_a_cursor_belongs_to_its_list_key_and_version() -> None:
    text = make_cursor(("a",), of="tasks status:failed", key=b"k")
    for of, key in (("tasks", b"k"), ("tasks status:failed", b""), ("tasks status:failed", b"j")):
        with pytest.raises(InvalidInput):
            parse_cursor(text, of=of, key=key)
    with pytest.raises(InvalidInput):
        parse_cursor("B" + text[1:], of="tasks status:failed", key=b"k")
    with pytest.raises(InvalidInput):
        parse_cursor("A" * (CURSOR_CHARS_MAX + 1), of="tasks")


@pytest.mark.parametrize("body", [b"{}", b"[[1]]", b"[", b'["\xff"]', b""])
def test_a_cursor_made_elsewhere_with_the_right_sum_is_refused(body: bytes) -> None:
    from holdfast.core import wire

    data = b"\x01" + wire._mac(body, "tasks", b"") + body
    with pytest.raises(InvalidInput):
        parse_cursor(urlsafe_b64encode(data).decode().rstrip("="), of="tasks")


@pytest.mark.parametrize("id", ["a", "task-1", "é 1", "a" * 200, "a!@"])
def test_an_id_is_printable(id: str) -> None:
    assert check_new_id("id", id) == id


@pytest.mark.parametrize("id", ["", "a" * 201, "a/b", "!a", "@a", "a\n", "a\x00", 7, None])
def test_an_id_is_refused(id: object) -> None:
    with pytest.raises(InvalidInput, match="id"):
        check_new_id("id", id)


@pytest.mark.parametrize("name", ["default", "a", "a.b_c-9", "a" * 64, "-", "all-of-it"])
def test_a_project_has_a_plain_name(name: str) -> None:
    assert check_project("project", name) == name


@pytest.mark.parametrize(
    "name", ["", "a" * 65, "A", "a/b", "a b", "é", "a\n", "register", "all", ".", "..", 1, None]
)
def test_a_project_is_refused(name: object) -> None:
    with pytest.raises(InvalidInput, match="project"):
        check_project("project", name)


@given(utf8, st.integers(0, 12))
def test_a_preview_is_the_longest_start_that_fits(text: str, most: int) -> None:
    start = preview(text, most)
    assert text.startswith(start)
    assert len(start.encode()) <= most
    assert start == text or len(text[: len(start) + 1].encode()) > most


def test_a_preview_has_200_bytes() -> None:
    assert preview("a" * 500) == "a" * 200
    assert preview("a" + "😀" * 100) == "a" + "😀" * 49
    assert preview("a" * 200) == "a" * 200
    assert preview("\ud800" * 300) == "?" * 200
