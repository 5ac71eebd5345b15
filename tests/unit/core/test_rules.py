"""The rules of retries, limits, priorities, dependencies, pressure, capacity and schedules."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings, strategies as st

from holdfast.core import capacity, dependency, limit, pressure, priority, retry, schedule
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.limit import Limit, LimitRule, name_of
from holdfast.core.pressure import Backlog, DepthBounds, Pressure
from holdfast.core.task import Priority, Status
from holdfast.errors import (
    BadConfig,
    DependencyCycle,
    InvalidInput,
    UnknownDependency,
    UnknownPriority,
)

# -- retry -------------------------------------------------------------------------------------------


@given(
    base=st.floats(0.001, 100),
    cap=st.floats(0.001, 10_000),
    key=st.text(max_size=40),
    attempt=st.integers(1, 200),
)
def test_delays_grow_up_to_the_cap(base: float, cap: float, key: str, attempt: int) -> None:
    def delay(n: int) -> float:
        return retry.delay_seconds(n, base=base, cap=cap, jitter=retry.unit_jitter(key, n))

    assert 0 < delay(attempt) <= cap
    assert delay(attempt) <= delay(attempt + 1)
    assert delay(attempt) >= min(cap, base * 2.0 ** min(attempt - 1, 62))


@given(key=st.text(max_size=40), attempt=st.integers(1, 10_000))
def test_jitter_is_a_share(key: str, attempt: int) -> None:
    assert 0.0 <= retry.unit_jitter(key, attempt) < 1.0


def test_jitter_is_the_same_in_every_process() -> None:
    script = "from holdfast.core.retry import unit_jitter; print(unit_jitter('task-1', 3))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1", "12345")
    }
    assert outputs == {str(retry.unit_jitter("task-1", 3))}
    assert retry.unit_jitter("task-1", 3) != retry.unit_jitter("task-1", 4)
    assert retry.unit_jitter("task-1", 3) != retry.unit_jitter("task-2", 3)


# -- limits ------------------------------------------------------------------------------------------

rules = st.builds(
    LimitRule,
    max_running=st.one_of(st.none(), st.integers(1, 5)),
    rate_count=st.one_of(st.none(), st.integers(1, 20)),
    rate_seconds=st.sampled_from([0.5, 1.0, 10.0, 60.0]),
    burst=st.integers(1, 5),
)


@given(rule=rules, gaps=st.lists(st.floats(0, 5), min_size=1, max_size=80), ends=st.booleans())
@settings(max_examples=150)
def test_a_limit_is_exact(rule: LimitRule, gaps: list[float], ends: bool) -> None:
    """However often starts are requested, no window has more than the rule allows."""
    now = 1_800_000_000.0
    one = Limit("x", rule)
    starts: list[float] = []
    for gap in gaps:
        now += gap
        for _ in range(10):
            if limit.permits(one, now) < 1:
                break
            one = limit.take(one, now)
            starts.append(now)
            assert rule.max_running is None or one.running <= rule.max_running
            if ends:
                one = Limit("x", rule, one.running - 1, 0, one.full_until)
    if rule.rate_count is not None:
        most = rule.rate_count + rule.burst - 1
        for n in range(len(starts) - most):
            assert starts[n + most] - starts[n] >= rule.rate_seconds - 1e-5


@example(rule=LimitRule(rate_count=5, rate_seconds=1.0, burst=2), running=0, ahead=1e-6)
@given(rule=rules, running=st.integers(0, 6), ahead=st.floats(0, 100))
def test_permits_equal_the_starts_that_are_possible(
    rule: LimitRule, running: int, ahead: float
) -> None:
    now = 1_800_000_000.0
    one = Limit("x", rule, running, 0, now + ahead)
    permits = limit.permits(one, now)
    taken = 0
    while taken < 200 and limit.permits(one, now) >= 1:
        one = limit.take(one, now)
        taken += 1
    assert taken == min(permits, 200)


@given(rule=rules, ahead=st.floats(0, 100))
def test_a_limit_opens_at_the_predicted_time(rule: LimitRule, ahead: float) -> None:
    now = 1_800_000_000.0
    one = Limit("x", rule, 0, 1, now + ahead)
    opens_at = limit.opens_at(one, now)
    assert opens_at is not None
    assert opens_at >= now
    assert limit.permits(one, opens_at + 1e-6) >= 1
    if opens_at > now + 1e-3:
        assert limit.permits(one, opens_at - 1e-3) < 1


def test_only_the_end_of_a_task_opens_a_full_concurrency_limit() -> None:
    assert limit.opens_at(Limit("x", LimitRule(max_running=2), 2), 0.0) is None
    assert limit.permits(Limit("x", LimitRule(max_running=2), 5), 0.0) == 0
    assert limit.permits(Limit("x", LimitRule()), 0.0) == math.inf


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    [
        ("5/s", 5, 1.0),
        ("100/m", 100, 60.0),
        (" 1 / h ", 1, 3600.0),
        ("10/30s", 10, 30.0),
        ("1/d", 1, 86400.0),
    ],
)
def test_valid_rates(text: str, count: int, seconds: float) -> None:
    assert limit.parse_rate(text) == (count, seconds)


@pytest.mark.parametrize("text", ["", "5", "0/s", "-1/s", "5/0s", "5/w", "x/s", "5/s/s", "1.5/s"])
def test_invalid_rates(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate"):
        limit.parse_rate(text)


def test_a_rule_in_words() -> None:
    assert limit.describe(LimitRule(max_running=4, rate_count=100, rate_seconds=60.0)) == (
        "at most 4 running, 100 starts per 60 s"
    )
    assert limit.describe(LimitRule()) == "no bound"


# -- priority ----------------------------------------------------------------------------------------


@given(batches=st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_one_of_every_ten_starts_is_for_aged_tasks(batches: list[int]) -> None:
    counted, aged, starts = 0, 0, 0
    for batch in batches:
        share = priority.aged_share(counted, batch)
        assert 0 <= share.aged <= batch
        assert 0 <= share.counted < priority.AGED_EVERY
        counted = share.counted
        aged += share.aged
        starts += batch
        assert aged == starts // priority.AGED_EVERY


@pytest.mark.parametrize("value", ["critical", "CRITICAL", 0, Priority.CRITICAL])
def test_valid_priorities(value: str | int) -> None:
    assert priority.parse(value) is Priority.CRITICAL


@pytest.mark.parametrize("value", ["urgent", "", 4, -1, 1.5, None])
def test_unknown_priorities(value: object) -> None:
    with pytest.raises(UnknownPriority, match="critical, high, normal, low"):
        priority.parse(value)  # type: ignore[arg-type]


# -- dependencies ------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_a_batch_is_ordered_or_refused(pairs: list[tuple[int, int]]) -> None:
    edges: dict[str, list[Edge]] = {str(n): [] for n in range(10)}
    for child, parent in pairs:
        edges[str(child)].append(Edge(str(parent)))
    try:
        ids = dependency.check_acyclic(edges)
    except DependencyCycle:
        assert any(reaches(edges, name, name) for name in edges)
        return
    assert sorted(ids) == sorted(edges)
    for name, parents in edges.items():
        assert all(ids.index(edge.parent_id) < ids.index(name) for edge in parents)


def reaches(edges: dict[str, list[Edge]], start: str, goal: str) -> bool:
    visited: set[str] = set()
    todo = [edge.parent_id for edge in edges[start]]
    while todo:
        name = todo.pop()
        if name == goal:
            return True
        if name not in visited:
            visited.add(name)
            todo += [edge.parent_id for edge in edges[name]]
    return False


def test_edges_that_a_child_waits_for() -> None:
    edges = [
        Edge("done"),
        Edge("running"),
        Edge("dead", DependencyPolicy.IGNORE),
        Edge("gone", DependencyPolicy.IGNORE),
    ]
    statuses = {
        "done": Status.COMPLETED,
        "running": Status.RUNNING,
        "dead": Status.FAILED,
        "gone": Status.ABORTED,
    }
    assert dependency.still_pending("c", edges, statuses) == (Edge("running"),)
    with pytest.raises(UnknownDependency, match="missing"):
        dependency.still_pending("c", [Edge("missing")], statuses)
    for parent in ("dead", "gone"):
        assert dependency.still_pending("c", [Edge(parent)], statuses) == (Edge(parent),)


# -- pressure ----------------------------------------------------------------------------------------


@given(
    depth=st.integers(0, 200),
    adding=st.integers(1, 50),
    bound=st.one_of(st.none(), st.integers(1, 150)),
    age=st.floats(0, 100),
    age_bound=st.one_of(st.none(), st.floats(1, 90)),
)
def test_pressure_is_a_typed_answer(
    depth: int, adding: int, bound: int | None, age: float, age_bound: float | None
) -> None:
    answer, reason = pressure.judge(DepthBounds(bound, age_bound), Backlog(depth, age), adding)
    too_deep = bound is not None and depth + adding > bound
    too_old = age_bound is not None and age > age_bound
    assert (answer is Pressure.REJECTED) == (too_deep or too_old)
    assert bool(reason) == (answer is not Pressure.ACCEPTED)


@given(
    depth=st.integers(0, 200),
    bound=st.one_of(st.none(), st.integers(1, 150)),
    age=st.floats(0, 100),
    age_bound=st.one_of(st.none(), st.floats(1, 90)),
)
def test_tasks_within_the_headroom_are_accepted(
    depth: int, bound: int | None, age: float, age_bound: float | None
) -> None:
    bounds, load = DepthBounds(bound, age_bound), Backlog(depth, age)
    headroom = pressure.headroom(bounds, load)
    if headroom:
        assert pressure.judge(bounds, load, headroom)[0] is Pressure.ACCEPTED
    if bound is not None:
        assert pressure.judge(bounds, load, headroom + 1)[0] is not Pressure.ACCEPTED


def test_a_measured_backlog_is_reused_while_the_bound_is_out_of_reach() -> None:
    def seconds(headroom: int, age_bound: float | None = None) -> float:
        return pressure.trusted_seconds(DepthBounds(10_000_000, age_bound), headroom)

    assert seconds(0) == seconds(100) == pressure.TRUSTED_SECONDS
    assert seconds(4 * pressure.COMING_PER_SECOND) == 4.0
    assert seconds(10**9) == pressure.TRUSTED_SECONDS_MAX
    # The age grows even when no task is added.
    assert seconds(10**9, age_bound=60.0) == pressure.TRUSTED_SECONDS


def test_pressure_warns_before_it_refuses() -> None:
    answers = [
        pressure.judge(DepthBounds(depth_max=10), Backlog(n))[0].value for n in (0, 7, 8, 9, 10)
    ]
    assert answers == ["accepted", "accepted", "under_pressure", "under_pressure", "rejected"]


# -- capacity ----------------------------------------------------------------------------------------


@given(
    current=st.integers(0, 50),
    busy=st.integers(0, 50),
    waiting=st.integers(0, 500),
    minimum=st.integers(1, 10),
    more=st.integers(0, 40),
    quiet=st.floats(0, 100),
)
def test_the_number_of_workers_stays_within_its_bounds(
    current: int, busy: int, waiting: int, minimum: int, more: int, quiet: float
) -> None:
    maximum = minimum + more
    target = capacity.target_workers(
        current=current,
        busy=busy,
        waiting=waiting,
        minimum=minimum,
        maximum=maximum,
        quiet_seconds=quiet,
    )
    assert minimum <= target <= max(maximum, current)
    if waiting and minimum <= current <= maximum:
        assert target >= min(current, busy + waiting), "it does not shrink below its load"


@given(
    workers=st.integers(-1, 1000),
    mean=st.floats(0, 100),
    rate=st.none() | st.floats(0, 1e6),
    chars=st.none() | st.floats(2, 262_144),
)
def test_prefetched_tasks_are_bounded(
    workers: int, mean: float, rate: float | None, chars: float | None
) -> None:
    ahead = capacity.prefetch(workers, mean, ends_per_second=rate, payload_chars=chars)
    assert 0 <= ahead <= capacity.PREFETCH_MAX
    if mean > 0 and workers > 0:
        assert ahead * mean / workers <= capacity.PREFETCH_SECONDS + 1e-9
        if rate is None or chars is None:
            assert ahead <= capacity.LARGE_PREFETCH_MAX
        if rate is not None:
            assert ahead <= rate * capacity.PREFETCH_SECONDS


@pytest.mark.parametrize(
    ("claim_max", "bound"),
    [(capacity.claim_max, capacity.CLAIM_CHARS), (capacity.offer_max, capacity.OFFER_CHARS)],
)
@given(chars=st.none() | st.floats(2, 262_144))
def test_large_payloads_make_claims_smaller(
    claim_max: Callable[[float | None], int], bound: int, chars: float | None
) -> None:
    largest = claim_max(chars)
    assert capacity.LARGE_CLAIM_MAX <= largest <= capacity.CLAIM_MAX
    if chars is None or chars > bound / capacity.LARGE_CLAIM_MAX:
        assert largest == capacity.LARGE_CLAIM_MAX
    else:
        assert largest * chars <= bound


def test_a_moving_average() -> None:
    assert capacity.smoothed(0.0, 4.0) == 4.0
    assert 1.0 < capacity.smoothed(1.0, 2.0) < 2.0


# -- schedules ---------------------------------------------------------------------------------------


def at(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


def fires(spec: str, zone: str, start: str, count: int) -> list[str]:
    moment = at(start)
    times = []
    for _ in range(count):
        moment = schedule.next_fire(spec, zone, moment)
        times.append(datetime.fromtimestamp(moment, UTC).isoformat().removesuffix("+00:00"))
    return times


def test_cron_in_utc() -> None:
    assert fires("*/15 * * * *", "UTC", "2027-01-01T00:07:00+00:00", 3) == [
        *("2027-01-01T00:15:00", "2027-01-01T00:30:00", "2027-01-01T00:45:00")
    ]
    assert fires("0 0 29 2 *", "UTC", "2026-03-01T00:00:00+00:00", 1) == ["2028-02-29T00:00:00"]


def test_the_hour_that_is_skipped_in_spring_fires_once() -> None:
    # In Prague 02:30 does not exist on 2027-03-28.
    assert fires("30 2 * * *", "Europe/Prague", "2027-03-27T00:00:00+00:00", 3) == [
        *("2027-03-27T01:30:00", "2027-03-28T01:00:00", "2027-03-29T00:30:00")
    ]


def test_the_hour_that_comes_twice_in_autumn_fires_once() -> None:
    # In Prague 02:30 comes twice on 2027-10-31.
    assert fires("30 2 * * *", "Europe/Prague", "2027-10-30T00:00:00+00:00", 3) == [
        *("2027-10-30T00:30:00", "2027-10-31T00:30:00", "2027-11-01T01:30:00")
    ]


@given(st.floats(1e-3, 1e6), st.floats(0, 4e9))
def test_a_schedule_every_n_seconds(every: float, now: float) -> None:
    assert schedule.next_fire(f"@every {every!r}", "UTC", now) == now + every


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "* * *",
        "61 * * * *",
        "hello",
        "@every",
        "@every x",
        "@every 0",
        "@every -1",
        "@every nan",
        "@every inf",
        "0 0 31 2 *",
    ],
)
def test_bad_schedules(spec: str) -> None:
    with pytest.raises(InvalidInput):
        schedule.next_fire(spec, "UTC", 0.0)


def test_an_unknown_time_zone() -> None:
    for zone in ("Mars/Phobos", "", "../etc"):
        with pytest.raises(BadConfig, match="time zone"):
            schedule.next_fire("* * * * *", zone, 0.0)


WORDS = st.text("a/%2F!", min_size=1) | st.text(min_size=1)


@given(WORDS, st.none() | WORDS, WORDS, st.none() | WORDS)
def test_no_two_limits_share_a_name(
    a_type: str, a_key: str | None, b_type: str, b_key: str | None
) -> None:
    same = (a_type, a_key) == (b_type, b_key)
    assert (name_of(a_type, a_key) == name_of(b_type, b_key)) == same
    assert not name_of(a_type, a_key).startswith("!")


@example("mail/vip", "mail", "vip")
@example("a%2Fb", "a", "b")
@given(st.text("a/%2F!", min_size=1), st.text("a/%2F!", min_size=1), st.text("a/%2F!", min_size=1))
def test_a_type_does_not_share_a_limit_with_a_key_of_another(
    a_type: str, b_type: str, b_key: str
) -> None:
    assert name_of(a_type) != name_of(b_type, b_key)
