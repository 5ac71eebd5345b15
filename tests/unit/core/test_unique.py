"""The rules of unique windows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core.codec import dumps
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import submit
from holdfast.core.task import ENDED, Status
from holdfast.core.unique import Unique, check_chosen, is_taken, window_key
from holdfast.errors import InvalidInput

TASK = submit(EnqueueRequest(type="work", payload={}), task_id="t", now=0.0).task
values = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2) | st.text(max_size=2))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"until": "ended", "period": 3},
        {"until": "paused"},
        {"period": 0},
        {"period": "1h"},
        {"until": "ended", "by": ("",)},
        {"until": "ended", "by": tuple(f"a{n}" for n in range(21))},
    ],
)
def test_wrong_windows_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Unique(**wrong)


def test_a_window_survives_its_json() -> None:
    for window in (Unique(until="started", by="a"), Unique(period=timedelta(hours=1))):
        assert msgspec.json.decode(msgspec.json.encode(window), type=Unique) == window


@given(values, values)
def test_the_key_is_that_of_the_chosen_arguments(one: dict[str, Any], two: dict[str, Any]) -> None:
    whole, by = Unique(until="ended"), Unique(until="ended", by=("a", "b"))
    texts = [dumps(one), dumps(two)]
    assert (window_key(whole, texts[0]) == window_key(whole, texts[1])) == (one == two)
    chosen = [[each.get("a"), each.get("b")] for each in (one, two)]
    assert (window_key(by, texts[0]) == window_key(by, texts[1])) == (chosen[0] == chosen[1])


def test_arguments_need_an_object() -> None:
    with pytest.raises(InvalidInput, match="needs an object"):
        window_key(Unique(until="ended", by="a"), "[1]")


def test_a_payload_that_was_left_out_is_a_call_without_arguments() -> None:
    """`queue.enqueue("work")`, `work.enqueue()` and a schedule of the code ask for the same."""
    for window in (Unique(until="ended"), Unique(until="ended", by="a")):
        assert window_key(window, "null") == window_key(window, "{}")


def test_a_window_is_chosen_by_arguments_that_exist() -> None:
    window = Unique(until="ended", by=("a", "b"))
    check_chosen(None, "work", (), InvalidInput)
    check_chosen(window, "work", None, InvalidInput)
    check_chosen(window, "work", {"a", "b", "c"}, InvalidInput)
    with pytest.raises(
        InvalidInput, match=r"chosen by 'b', which is not an argument of it \(it has: a\)"
    ):
        check_chosen(window, "work", {"a"}, InvalidInput)


def test_a_period_outlives_no_correction_of_the_clock() -> None:
    """The clock was wrong by years, or by seconds, when the window was taken."""
    for_ten = Unique(period=10)
    assert not is_taken(for_ten, TASK, taken_at=1e9, now=20.0)
    assert is_taken(for_ten, TASK, taken_at=29.0, now=20.0)


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("started_at", [None, 5.0])
def test_when_a_window_is_taken(status: Status, started_at: float | None) -> None:
    holder = replace(TASK, status=status, started_at=started_at)
    waits = status not in ENDED and started_at is None
    assert is_taken(Unique(until="started"), holder, 10.0, 20.0) == waits
    assert is_taken(Unique(until="ended"), holder, 10.0, 20.0) == (status not in ENDED)
    assert is_taken(Unique(period=11), holder, 10.0, 20.0)
    assert not is_taken(Unique(period=10), holder, 10.0, 20.0)
