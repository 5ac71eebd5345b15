"""The rules of one subscription."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast.core.event import Position
from holdfast.core.event_kinds import EventClass
from holdfast.core.subscription import (
    OUTPUT_BYTES_MAX,
    FeedBounds,
    Flow,
    FlowBounds,
    Mergeable,
    StreamFilter,
    StreamReset,
    accepts_kind,
    accepts_project,
    after_bookmark,
    after_frame,
    after_reading,
    bookmark_at,
    flow_after,
    is_stalled,
    merge,
    reset_reason,
    start_at,
)

BOUNDS = FeedBounds(Position("e", 10), Position("e", 20))


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (Position("e", 10), None),
        (Position("e", 20), None),
        (Position("e", 9), StreamReset.PRUNED),
        (Position("e", 21), StreamReset.AHEAD),
        (Position("f", 15), StreamReset.EPOCH),
    ],
)
def test_reset_reason(after: Position, reason: StreamReset | None) -> None:
    assert reset_reason(after, BOUNDS) == reason


@given(
    st.lists(st.tuples(st.sampled_from(["event", "other", "bookmark", "live"]), st.integers(1, 3)))
)
def test_positions_rise_and_prev_is_the_frame_before(steps: list[tuple[str, int]]) -> None:
    """A reader that goes on from any frame gets exactly the events that come after it."""
    cursor, matching, frames = start_at(0), [], [0]
    for step, width in steps:
        match step:
            case "event":
                offset = cursor.read + width
                matching.append(offset)
                cursor = after_frame(cursor, offset)
                frames.append(offset)
            case "other":
                cursor = after_reading(cursor, cursor.read + width)
            case _:
                offset_or_none = bookmark_at(cursor, cursor.read, live=step == "live")
                if offset_or_none is not None:
                    cursor = after_bookmark(cursor, offset_or_none)
                    frames.append(offset_or_none)
        assert cursor.last == frames[-1]
        assert cursor.last <= cursor.read
        with pytest.raises(ValueError, match="was read before"):
            after_frame(cursor, cursor.read)
    assert frames == sorted(frames)
    events = [offset for offset in frames if offset in matching]
    assert sorted(set(events)) == matching


def test_no_bookmark_before_the_end_of_what_was_read() -> None:
    cursor = after_reading(start_at(5), 8)
    assert bookmark_at(cursor, 9) is None
    assert bookmark_at(cursor, 8) == 8
    assert bookmark_at(cursor, 5) is None
    assert bookmark_at(cursor, 5, live=True) == 5
    with pytest.raises(ValueError, match="no bookmark"):
        after_bookmark(cursor, 9)
    with pytest.raises(ValueError, match="no bookmark"):
        after_bookmark(cursor, 4)


# -- merging ---------------------------------------------------------------------------------------


def output(offset: int, start: int, text: str, task: str = "a", fence: int = 1) -> Mergeable:
    payload = {
        "task_id": task,
        "fence": fence,
        "stream": "stdout",
        "start": start,
        "size": len(text),
        "data": text,
    }
    return Mergeable(offset, "task.output", payload)


def metrics(offset: int, task: str = "a", fence: int = 1, **totals: float) -> Mergeable:
    return Mergeable(offset, "task.metrics", {"task_id": task, "fence": fence, "totals": totals})


def test_contiguous_output_is_joined() -> None:
    assert merge([output(1, 0, "ab"), output(2, 2, "cd"), output(3, 4, "e")]) == [
        Mergeable(3, "task.output", output(1, 0, "abcde").payload, 3)
    ]


@pytest.mark.parametrize(
    "second",
    [
        output(2, 3, "cd"),
        output(2, 2, "cd", fence=2),
        output(2, 2, "cd", task="b"),
        output(2, 2, "x" * OUTPUT_BYTES_MAX),
        Mergeable(2, "task.output", {**output(2, 2, "cd").payload, "stream": "stderr"}),
        Mergeable(
            2,
            "task.output",
            {"task_id": "a", "fence": 1, "stream": "stdout", "start": 2, "size": 2},
        ),
        Mergeable(2, "task.output", {"task_id": "a", "fence": 1, "stream": "stdout", "start": 2}),
    ],
    ids=["gap", "fence", "task", "size", "stream", "no-data", "no-size"],
)
def test_other_output_stays_apart(second: Mergeable) -> None:
    first = output(1, 0, "ab")
    assert merge([first, second]) == [first, second]


def test_output_is_not_joined_over_another_event() -> None:
    """A client that stops at the event between would resume behind output that it never got."""
    events = [output(1, 0, "ab"), output(2, 0, "xy", task="b"), output(3, 2, "cd")]
    assert merge(events) == events


def test_the_latest_report_stays() -> None:
    merged = merge([metrics(1, cpu=1), metrics(2, "b", cpu=5), metrics(3, cpu=2)])
    assert [(each.offset, each.merged, each.payload["totals"]) for each in merged] == [
        (2, 1, {"cpu": 5}),
        (3, 2, {"cpu": 2}),
    ]


@st.composite
def informational(draw: st.DrawFn) -> list[Mergeable]:
    """Events as runners write them: the chunks of one stream follow each other."""
    ends: dict[tuple[str, int], int] = {}
    events = []
    for offset in range(1, draw(st.integers(0, 25)) + 1):
        task, fence = draw(st.sampled_from("ab")), draw(st.integers(1, 2))
        if draw(st.booleans()):
            events.append(metrics(offset, task, fence, n=offset))
        else:
            text = draw(st.text("xyz", min_size=1, max_size=4))
            start = ends.get((task, fence), 0)
            ends[task, fence] = start + len(text)
            events.append(output(offset, start, text, task, fence))
    return events


@given(informational(), st.integers(0, 30))
def test_merging_loses_nothing_whichever_frame_is_the_last(
    events: list[Mergeable], stop: int
) -> None:
    """A client takes some frames, then resumes from the position of the last one, unmerged."""
    frames = merge(events)
    assert [frame.offset for frame in frames] == sorted({frame.offset for frame in frames})
    assert sum(frame.merged for frame in frames) == len(events)
    taken = frames[:stop]
    position = taken[-1].offset if taken else 0
    resumed = [*taken, *(event for event in events if event.offset > position)]
    assert texts(resumed) == texts(events)
    assert latest(resumed) == latest(events)


def texts(events: list[Mergeable]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for event in events:
        if event.kind == "task.output":
            key = event.payload["task_id"], event.payload["fence"]
            assert event.payload["start"] == len(found.get(key, ""))
            found[key] = found.get(key, "") + event.payload["data"]
    return found


def latest(events: list[Mergeable]) -> dict[tuple[str, int], Any]:
    return {
        (event.payload["task_id"], event.payload["fence"]): event.payload["totals"]
        for event in events
        if event.kind == "task.metrics"
    }


# -- filters ---------------------------------------------------------------------------------------


def test_filters() -> None:
    whole = StreamFilter(frozenset({"task:a"}))
    some = StreamFilter(
        frozenset({"task:a"}),
        frozenset({"web"}),
        ("task.*", "node.lost"),
        frozenset({EventClass.CRITICAL}),
    )
    assert accepts_kind(whole, "task.output", EventClass.INFORMATIONAL)
    assert accepts_kind(some, "task.started", EventClass.CRITICAL)
    assert not accepts_kind(some, "task.output", EventClass.INFORMATIONAL)
    assert not accepts_kind(some, "node.left", EventClass.CRITICAL)
    assert accepts_kind(some, "node.lost", EventClass.CRITICAL)
    assert accepts_project(whole, "any")
    assert accepts_project(some, "web")
    assert accepts_project(some, None)
    assert not accepts_project(some, "default")


# -- flow control ----------------------------------------------------------------------------------

FLOW = FlowBounds(high_bytes=100, low_bytes=25, stall_seconds=30.0)


def test_a_full_buffer_parks_until_it_has_drained_to_the_low_mark() -> None:
    flow = flow_after(Flow(), 100, 0.0, FLOW)
    assert not flow.is_parked
    flow = flow_after(flow, 101, 1.0, FLOW)
    assert flow.is_parked
    flow = flow_after(flow, 26, 2.0, FLOW)
    assert flow.is_parked
    flow = flow_after(flow, 25, 3.0, FLOW)
    assert not flow.is_parked


@given(st.lists(st.tuples(st.integers(0, 150), st.integers(1, 20)), max_size=30))
def test_only_a_client_that_takes_nothing_is_stalled(looks: list[tuple[int, int]]) -> None:
    flow, now, last, moved = Flow(), 0.0, 0, 0.0
    for buffered, seconds in looks:
        now += seconds
        flow = flow_after(flow, buffered, now, FLOW)
        if buffered < last or not flow.is_parked:
            moved = now
        if is_stalled(flow, now, FLOW):
            assert flow.is_parked
            assert now - moved >= FLOW.stall_seconds
        last = buffered
    if flow.is_parked:
        assert is_stalled(flow, now + FLOW.stall_seconds, FLOW)
