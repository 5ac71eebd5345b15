"""The rules of the dispatcher: when to claim, how many tasks, and how long to sleep."""

from __future__ import annotations

from hypothesis import given, strategies as st

from holdfast.core import claiming
from holdfast.core.capacity import CLAIM_MAX, LARGE_CLAIM_MAX
from holdfast.core.claiming import (
    Claimed,
    ClaimFirst,
    ClaimMany,
    ClaimState,
    Hint,
    Load,
    ReadUpcoming,
    Upcoming,
)
from holdfast.core.priority import AGED_EVERY
from holdfast.core.task import Priority, Status
from tests.unit.core.test_decide import task_in

NOW = 1_800_000_000.0
moments = st.none() | st.floats(NOW - 100.0, NOW + 100.0)
states = st.builds(
    ClaimState,
    is_saturated=st.booleans(),
    is_blind=st.booleans(),
    blind_seconds=st.floats(0.0, 10.0),
    is_small=st.booleans(),
    served=st.sampled_from(Priority),
    starts=st.integers(0, AGED_EVERY - 1),
    aged_at=st.floats(NOW - 10.0, NOW + 10.0),
    gates_at=st.floats(NOW - 10.0, NOW + 10.0),
    gates_not_before=st.floats(NOW - 10.0, NOW + 10.0),
)
loads = st.builds(
    Load,
    free=st.integers(0, 1_000),
    waiting=st.integers(0, 500),
    maximum=st.integers(1, 500),
    largest=st.integers(LARGE_CLAIM_MAX, CLAIM_MAX),
    is_flowing=st.booleans(),
    mean_seconds=st.floats(0.0, 10.0),
)
upcomings = st.builds(Upcoming, due_at=moments, opens_at=moments)


def claimed(count: int, **fields: object) -> Claimed:
    return Claimed([task_in(Status.RUNNING)] * count, **fields)  # type: ignore[arg-type]


@given(loads)
def test_a_claim_is_no_larger_than_the_free_workers(load: Load) -> None:
    assert 0 <= claiming.room(load) <= min(load.free, load.largest)


@given(loads)
def test_free_workers_claim_unless_short_tasks_flow_and_wait(load: Load) -> None:
    if load.free and not (load.waiting and load.is_flowing):
        assert claiming.room(load) > 0


@given(states, st.integers(1, CLAIM_MAX))
def test_a_hint_of_many_is_always_followed_by_a_claim(state: ClaimState, free: int) -> None:
    step = claiming.begin(state, Hint.MANY, free, NOW)
    assert isinstance(step, ClaimMany)
    assert step.limit == free


@given(states, st.integers(1, CLAIM_MAX))
def test_a_hint_of_one_claims_one_task_only_after_a_drained_queue(
    state: ClaimState, free: int
) -> None:
    step = claiming.begin(state, Hint.ONE, free, NOW)
    is_first = isinstance(step, ClaimFirst)
    assert is_first == (not state.is_saturated and not state.is_blind)


@given(states, st.integers(1, CLAIM_MAX))
def test_without_a_hint_a_dispatcher_reads_the_next_due_time_first(
    state: ClaimState, free: int
) -> None:
    assert isinstance(claiming.begin(state, Hint.NONE, free, NOW), ReadUpcoming)


@given(states, st.integers(1, CLAIM_MAX))
def test_aged_tasks_are_searched_only_while_claims_are_saturated(
    state: ClaimState, free: int
) -> None:
    step = claiming.claim_many(state, free, NOW)
    assert 0 <= step.aged <= step.limit == free
    if not state.is_saturated or state.aged_at > NOW:
        assert step.aged == 0


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40))
def test_one_of_every_ten_starts_is_offered_to_an_aged_task(sizes: list[int]) -> None:
    state, aged = ClaimState(), 0
    for size in sizes:
        aged += claiming.claim_many(state, size, NOW).aged
        state = claiming.after_claim(state, claimed(size), size)
        assert state.is_saturated
    assert aged == sum(sizes) // AGED_EVERY


@given(states, st.integers(0, 20), st.integers(0, 5), st.integers(1, 20))
def test_a_claim_below_its_limit_is_not_saturated(
    state: ClaimState, taken: int, parked: int, limit: int
) -> None:
    after = claiming.after_claim(state, claimed(taken, parked=parked), limit)
    assert after.is_saturated == (taken + parked >= limit)
    assert not after.is_blind


@given(states, upcomings, st.booleans())
def test_a_pause_ends_at_the_earliest_moment(
    state: ClaimState, upcoming: Upcoming, is_pushing: bool
) -> None:
    seconds = claiming.pause_seconds(state, upcoming, NOW, is_pushing=is_pushing)
    assert 0.0 <= seconds <= claiming.PUSHED_POLL_SECONDS
    if upcoming.due_at is not None:
        assert seconds <= max(0.0, upcoming.due_at - NOW)
    if upcoming.opens_at is not None:
        assert seconds <= max(0.0, upcoming.opens_at - NOW, state.gates_not_before - NOW)
    if state.blind_seconds > 0.0:
        assert seconds <= state.blind_seconds
    if not is_pushing:
        assert seconds <= claiming.POLL_SECONDS


@given(states, moments, st.integers(0, 3))
def test_limits_that_are_held_are_tried_again_after_a_pause(
    state: ClaimState, opens_at: float | None, opened: int
) -> None:
    after = claiming.after_gates(state, opened, NOW, took_seconds=0.0)
    if opens_at is None or opens_at > NOW:
        assert not claiming.are_gates_due(state, opens_at, NOW)
    else:
        assert claiming.are_gates_due(after, opens_at, NOW) == (opened > 0)
        assert claiming.are_gates_due(after, opens_at, NOW + claiming.HELD_RETRY_SECONDS)


@given(states)
def test_without_room_the_next_free_worker_triggers_a_claim(state: ClaimState) -> None:
    assert claiming.without_room(state).is_saturated
