"""The rules of the ledger, and the flow of a call with errors and interruptions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast.core import ledger as rules, once as course
from holdfast.core.ledger import (
    Answered,
    Busy,
    Clash,
    Done,
    Entry,
    EntryKey,
    EntryLease,
    EntryRequest,
    Failed,
    Runner,
    Stale,
    Start,
    State,
)
from holdfast.core.once import BeginStep, EndStep, OnError, RunStep, Step, WaitStep
from holdfast.core.steps import drive
from holdfast.errors import EffectFailed, InProgress, StoreUnavailable

KEY = EntryKey("s", "o", "k")


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    state = draw(st.sampled_from(State))
    running = state is State.IN_PROGRESS
    outcome = {State.DONE: "null", State.FAILED: '{"error":"E","message":"m"}'}.get(state)
    return Entry(
        KEY,
        draw(st.sampled_from(["f1", "f2"])),
        state,
        draw(st.integers(1, 5)),
        draw(st.sampled_from(["ann#1", "bob#1"])),
        draw(st.integers(1, 4)),
        0.0,
        draw(st.floats(0, 20)) if running else None,
        None if running else 5.0,
        outcome,
    )


@st.composite
def requests(draw: st.DrawFn) -> EntryRequest:
    fence = draw(st.none() | st.integers(1, 5))
    return EntryRequest(
        entry_key=KEY,
        fingerprint=draw(st.sampled_from(["f1", "f2"])),
        owner=draw(st.sampled_from(["ann#1", "bob#1"])),
        lease_seconds=10.0,
        retention_seconds=100.0,
        runner=None if fence is None else Runner("t", fence),
    )


@given(st.none() | entries(), requests(), st.floats(0, 30))
def test_a_request_is_judged_by_the_stored_entry(
    entry: Entry | None, request: EntryRequest, now: float
) -> None:
    verdict = rules.begin(entry, request, now)
    match verdict:
        case Start(lease=lease, replaced_fence=replaced_fence):
            assert (replaced_fence is None) == (entry is None)
            if entry is None:
                assert (lease.attempt, lease.taken_over_from) == (1, None)
                return
            assert entry.fingerprint == request.fingerprint
            assert entry.outcome_json is None, "an entry with an answer never runs again"
            assert lease.fence >= entry.fence, "fences never go back"
            if entry.owner != request.owner and request.runner is None:
                assert lease.fence > entry.fence
                assert lease.attempt == entry.attempt + 1
                assert entry.lease_until is None or entry.lease_until <= now
        case Answered(outcome=outcome):
            assert entry is not None
            assert outcome == (Done("null") if entry.state is State.DONE else Failed("E", "m"))
        case Busy():
            assert entry is not None
            assert entry.state is State.IN_PROGRESS
        case Clash():
            assert entry is not None
            assert entry.fingerprint != request.fingerprint
        case Stale():
            assert entry is not None
            assert entry.outcome_json is None
            was_given_up = entry.state is State.ABANDONED and entry.owner == request.owner
            assert was_given_up or (
                request.runner is not None and entry.fence > request.runner.fence
            )


@given(entries(), requests(), st.floats(0, 30))
def test_an_older_run_never_gets_a_step_back(
    entry: Entry, request: EntryRequest, now: float
) -> None:
    """It may have read the task just before a newer run wrote the entry."""
    if request.runner is not None and entry.fence > request.runner.fence:
        assert not isinstance(rules.begin(entry, request, now), Start | Busy)


def test_the_id_of_an_entry_is_the_same_everywhere() -> None:
    assert EntryKey("a", "b", "c").id == "665e81bcabf99fa13851138e"
    assert (
        len(
            {
                EntryKey(*parts).id
                for parts in (("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd"))
            }
        )
        == 3
    )


@pytest.mark.parametrize("outcome", [Done("null"), Done('{"a":1}'), Failed("E", 'm \u2603 "q"')])
def test_an_outcome_survives_a_round_trip(outcome: Done | Failed) -> None:
    state = rules.state_of(outcome)
    assert rules.outcome_of(state, rules.outcome_json(outcome)) == outcome


# -- the flow of a call ------------------------------------------------------------------------------------

LEASE = EntryLease(
    entry_key=KEY,
    owner="ann#1",
    fence=1,
    attempt=1,
    begun_at=0.0,
    lease_seconds=1.0,
    retention_seconds=9.0,
)


class Script:
    """Performs the steps of a call with scripted answers, and records them."""

    def __init__(self, *verdicts: Any, effect: Any = "x", end: Exception | None = None) -> None:
        self._verdicts = list(verdicts) or [Start(LEASE)]
        self._effect = effect
        self._end = end
        self.steps: list[Step] = []

    def __call__(self, step: Step) -> object:
        self.steps.append(step)
        match step:
            case BeginStep():
                return self._verdicts.pop(0)
            case RunStep():
                if isinstance(self._effect, BaseException):
                    raise self._effect
                return self._effect
            case EndStep():
                if self._end is not None:
                    raise self._end
        return None

    @property
    def ends(self) -> list[Any]:
        return [step.outcome for step in self.steps if isinstance(step, EndStep)]


def busy() -> Busy:
    entry = Entry(KEY, "f", State.IN_PROGRESS, 1, "bob#1", 1, 0.0, 9.0, None, None)
    return Busy(entry)


def test_the_outcome_is_written_before_the_answer_is_returned() -> None:
    script = Script(effect=[1, (2,)])
    assert drive(course.call(), script) == [1, [2]]
    assert [type(step) for step in script.steps] == [BeginStep, RunStep, EndStep]
    assert script.ends == [Done("[1,[2]]")]


def test_an_answer_that_could_not_be_written_is_not_returned() -> None:
    script = Script(end=StoreUnavailable("away"))
    with pytest.raises(StoreUnavailable):
        drive(course.call(), script)


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_the_first_error_is_raised(error: BaseException) -> None:
    script = Script(effect=error, end=StoreUnavailable("away"))
    with pytest.raises(type(error)) as raised:
        drive(course.call(), script)
    assert raised.value is error
    assert "was not written" in error.__notes__[0]
    assert script.ends == [None]


def test_an_interruption_is_never_stored_as_an_answer() -> None:
    script = Script(effect=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        drive(course.call(on_error=OnError.KEEP), script)
    assert script.ends == [None]


def test_waiting_backs_off_and_times_out() -> None:
    script = Script(*[busy()] * 100)
    with pytest.raises(InProgress):
        drive(course.call(wait_seconds=2.0), script)
    pauses = [step.seconds for step in script.steps if isinstance(step, WaitStep)]
    assert sum(pauses) == pytest.approx(2.0)
    assert pauses[:4] == [0.01, 0.02, 0.04, 0.08]
    assert max(pauses) <= 0.5


def test_a_call_that_is_dropped_writes_nothing() -> None:
    flow = course.call()
    next(flow)
    flow.send(Start(LEASE))
    flow.close()


def test_a_stored_failure_is_raised_with_its_error() -> None:
    with pytest.raises(EffectFailed, match="ValueError: no such account"):
        rules.answer(Failed("ValueError", "no such account"))
