"""Retry: exponential backoff, deterministic jitter, exhaustion, success on the N-th attempt; and the rules.

The first four are the seed's scenarios, under its names.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast.clock import VirtualClock
from holdfast.core import retry as rules
from holdfast.core.retry import Again, Allowance, Policy, Reason, Stop, Tokens, after_failure
from holdfast.errors import InProgress, InvalidInput, StoreBusy
from holdfast.primitives import retry as module
from holdfast.primitives.metrics import Metrics
from holdfast.primitives.retry import (
    Attempt,
    RetryBudget,
    aretry,
    retry,
    retry_with_log,
    retrying,
)
from tests.acceptance.apps.harness import eventually


class Flaky:
    """Fails so many times, then answers; notes when it was called."""

    def __init__(self, clock: VirtualClock, failures: int, error: Exception | None = None) -> None:
        self._clock = clock
        self._left = failures
        self._error = error or ConnectionError("gone")
        self.at: list[float] = []

    def __call__(self) -> str:
        self.at.append(self._clock.monotonic())
        if self._left > 0:
            self._left -= 1
            raise self._error
        return "fine"

    async def awaited(self) -> str:
        return self()

    @property
    def pauses(self) -> list[float]:
        return [after - before for before, after in zip(self.at, self.at[1:], strict=False)]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(0.0)


def given_up(flaky: Flaky, clock: VirtualClock, **options: Any) -> Exception:
    with pytest.raises(type(flaky._error)) as raised:
        retry(flaky, deterministic_clock=clock, **options)
    return raised.value


# -- the seed's scenarios ------------------------------------------------------------------------------


def test_exponential_backoff(clock: VirtualClock) -> None:
    flaky = Flaky(clock, 4)
    assert retry(flaky, attempts=5, jitter_off=True, deterministic_clock=clock) == "fine"
    assert flaky.pauses == pytest.approx([0.1, 0.2, 0.4, 0.8])


JITTER = """
from holdfast.clock import VirtualClock
from holdfast.primitives.retry import retry
clock, at = VirtualClock(0.0), []
def call():
    at.append(clock.monotonic())
    raise ConnectionError
try:
    retry(call, attempts=6, idem_key="order-7", deterministic_clock=clock)
except ConnectionError:
    print([f"{x:.9f}" for x in at])
"""


def test_deterministic_jitter(clock: VirtualClock) -> None:
    """The same in every process, whatever seed Python gives to its own hashes."""
    said = {
        subprocess.run(
            [sys.executable, "-c", JITTER],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(said) == 1
    flaky = Flaky(clock, 9)
    given_up(flaky, clock, attempts=6, idem_key="order-7")
    assert said == {f"{[f'{x:.9f}' for x in flaky.at]}\n"}
    full = [0.1, 0.2, 0.4, 0.8, 1.6]
    shares = [pause / whole for pause, whole in zip(flaky.pauses, full, strict=True)]
    assert all(0.5 <= share <= 1.0 for share in shares)
    assert len({f"{share:.6f}" for share in shares}) == 5, "each attempt has a share of its own"
    other = Flaky(clock, 9)
    given_up(other, clock, attempts=6, idem_key="order-8")
    assert other.pauses != pytest.approx(flaky.pauses)


def test_retry_exhaustion(clock: VirtualClock) -> None:
    flaky = Flaky(clock, 99)
    error = given_up(flaky, clock, attempts=3, jitter_off=True)
    assert len(flaky.at) == 3
    assert error is flaky._error
    assert error.__notes__ == ["holdfast retry: gave up after 3 attempts in 0.300 s (exhausted)"]


@pytest.mark.parametrize("attempt", [1, 2, 5])
def test_success_on_the_nth_attempt(clock: VirtualClock, attempt: int) -> None:
    flaky = Flaky(clock, attempt - 1)
    assert retry(flaky, attempts=5, deterministic_clock=clock) == "fine"
    assert len(flaky.at) == attempt


def test_retry_with_log(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("seed")
    with caplog.at_level(logging.WARNING):
        flaky = Flaky(clock, 1)
        assert retry_with_log(flaky, attempts=2, base_ms=0.0, logger=logger) == "fine"
        with pytest.raises(ConnectionError):
            retry_with_log(Flaky(clock, 9), attempts=2, base_ms=0.0, logger=logger)
    assert [(r.name, r.levelname, r.message) for r in caplog.records] == [
        ("seed", "WARNING", "[RETRY] attempt 1/2 failed: gone; next in 0 ms"),
        ("seed", "WARNING", "[RETRY] attempt 1/2 failed: gone; next in 0 ms"),
        ("seed", "ERROR", "[RETRY] gave up: gone"),
    ]


# -- both fronts are one ---------------------------------------------------------------------------------


async def test_the_async_form_does_the_same(clock: VirtualClock) -> None:
    plain, awaited = Flaky(clock, 9), Flaky(clock, 9)
    given_up(plain, clock, attempts=4, idem_key="k")
    trying = asyncio.create_task(aretry(awaited.awaited, clock=clock, attempts=4, idem_key="k"))
    while not trying.done():
        await asyncio.sleep(0)
        due = clock.next_wake()
        if due is not None:
            clock.set(due)
    with pytest.raises(ConnectionError):
        trying.result()
    assert awaited.pauses == pytest.approx(plain.pauses)


async def test_a_decorated_function_stays_what_it_is(clock: VirtualClock) -> None:
    plain, awaited = Flaky(clock, 1), Flaky(clock, 1)

    @retrying(base_ms=0.0)
    def add(a: int, *, b: int) -> str:
        return f"{plain()} {a + b}"

    @retrying(base_ms=0.0)
    async def mul(a: int) -> str:
        return f"{awaited()} {a * 2}"

    assert add(1, b=2) == "fine 3"
    assert await mul(4) == "fine 8"
    assert (add.__name__, mul.__name__) == ("add", "mul")


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1)])
async def test_what_ends_a_program_is_never_retried(error: BaseException) -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        raise error

    async def acall() -> None:
        call()

    with pytest.raises(type(error)):
        retry(call, retryable=lambda _: True, base_ms=0.0)
    with pytest.raises(type(error)):
        await aretry(acall, retryable=lambda _: True, base_ms=0.0)
    assert calls == 2


async def test_a_pause_can_be_cancelled(clock: VirtualClock) -> None:
    flaky = Flaky(clock, 9)
    trying = asyncio.create_task(aretry(flaky.awaited, clock=clock))
    await eventually(lambda: clock.next_wake() is not None)
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    assert len(flaky.at) == 1


# -- what is retried, and how long ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (ConnectionResetError(), 3),
        (TimeoutError(), 3),
        (StoreBusy("busy"), 3),
        (InProgress("runs"), 3),
        (InvalidInput("bad"), 1),
        (ValueError("bad"), 1),
        (FileNotFoundError(), 1),
    ],
)
def test_only_what_may_go_away_is_retried(
    clock: VirtualClock, error: Exception, calls: int
) -> None:
    flaky = Flaky(clock, 9, error)
    given_up(flaky, clock)
    assert len(flaky.at) == calls
    note = error.__notes__[0]
    assert ("(exhausted)" if calls == 3 else "gave up after 1 attempt in 0.000 s (refused)") in note


def test_the_caller_decides_what_is_retried(clock: VirtualClock) -> None:
    flaky = Flaky(clock, 2, ValueError("maybe"))
    assert (
        retry(flaky, retryable=lambda e: isinstance(e, ValueError), deterministic_clock=clock)
        == "fine"
    )


def test_pauses_have_a_cap(clock: VirtualClock) -> None:
    flaky = Flaky(clock, 7)
    retry(flaky, attempts=8, max_delay_ms=500.0, jitter_off=True, deterministic_clock=clock)
    assert flaky.pauses == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5, 0.5, 0.5])


def test_no_attempt_begins_after_the_deadline(clock: VirtualClock) -> None:
    flaky = Flaky(clock, 99)
    error = given_up(flaky, clock, attempts=50, deadline_ms=750.0, jitter_off=True)
    assert flaky.at == pytest.approx([0.0, 0.1, 0.3, 0.7])
    assert "(deadline)" in error.__notes__[0]


def test_a_hint_of_the_other_side_is_honoured(clock: VirtualClock) -> None:
    class Limited(ConnectionError):
        retry_after = 2.5

    flaky = Flaky(clock, 2, Limited())
    retry(flaky, max_delay_ms=200.0, jitter_off=True, deterministic_clock=clock)
    assert flaky.pauses == pytest.approx([2.5, 2.5])
    Limited.retry_after = 4_000.0
    assert "(hint)" in given_up(Flaky(clock, 2, Limited()), clock).__notes__[0]


def test_a_clock_that_is_only_read_lets_no_real_time_pass() -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        raise TimeoutError

    with pytest.raises(TimeoutError) as raised:
        retry(
            call,
            attempts=9,
            base_ms=1e6,
            max_delay_ms=1e9,
            deadline_ms=1e7,
            jitter_off=True,
            deterministic_clock=lambda: 5.0,
        )
    assert calls == 4, "after 1, 3 and 7 of the 10 thousand seconds"
    assert "(deadline)" in raised.value.__notes__[0]


def test_a_dead_backend_is_not_hammered(clock: VirtualClock) -> None:
    """Fifty calls that fail share ten retries, then as many as time and calls earn."""
    budget = RetryBudget(capacity=10.0, per_call=0.1, per_second=0.0)
    attempts = 0
    reasons = []
    for _ in range(50):
        flaky = Flaky(clock, 99)
        error = given_up(flaky, clock, attempts=5, base_ms=0.0, budget=budget)
        attempts += len(flaky.at)
        reasons.append(error.__notes__[0].rpartition("(")[2].strip(")"))
    assert attempts - 50 <= 10 + 50 * 0.1
    assert reasons[:2] == ["exhausted", "exhausted"]
    assert reasons[-1] == "budget"


def test_a_budget_comes_back_with_time() -> None:
    budget = RetryBudget(capacity=2.0, per_call=0.0, per_second=0.5)
    assert [budget.take(0.0) for _ in range(3)] == [True, True, False]
    assert not budget.take(1.9)
    assert budget.take(2.0)
    assert not budget.take(1.0), "a clock that goes back adds nothing"


def test_threads_share_a_budget_exactly() -> None:
    budget = RetryBudget(capacity=100.0, per_call=0.0, per_second=0.0)
    taken: list[bool] = []

    def take() -> None:
        taken.extend([budget.take(0.0) for _ in range(50)])

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 100


def test_whoever_asks_is_told_of_each_attempt(clock: VirtualClock) -> None:
    told: list[Attempt] = []
    meter = Metrics(module.FAMILIES)
    flaky = Flaky(clock, 2)
    retry(
        flaky,
        jitter_off=True,
        deterministic_clock=clock,
        on_retry=told.append,
        meter=meter,
        name="prices",
    )
    given_up(Flaky(clock, 9, ValueError()), clock, meter=meter, name="prices")
    assert [(a.number, a.delay_seconds) for a in told] == [(1, 0.1), (2, 0.2)]
    assert meter.value("holdfast_retry_calls_total", name="prices", end="ok") == 1
    assert meter.value("holdfast_retry_calls_total", name="prices", end="refused") == 1
    assert meter.value("holdfast_retry_retries_total", name="prices") == 2
    assert meter.value("holdfast_retry_delay_seconds", name="prices") == 2


@pytest.mark.parametrize(
    "options",
    [
        *({"attempts": 0}, {"attempts": 1_001}, {"base_ms": -1.0}, {"base_ms": float("nan")}),
        *({"max_delay_ms": float("inf")}, {"deadline_ms": -0.1}),
    ],
)
def test_nonsense_is_refused_before_the_first_attempt(options: dict[str, Any]) -> None:
    called = False

    def call() -> None:
        nonlocal called
        called = True

    with pytest.raises(InvalidInput):
        retry(call, **options)
    assert not called


def test_a_budget_of_nothing_is_refused() -> None:
    for options in ({"capacity": 0.5}, {"per_call": -1.0}, {"per_second": -1.0}):
        with pytest.raises(InvalidInput):
            RetryBudget(**options)


# -- the rules ---------------------------------------------------------------------------------------------

policies = st.builds(
    Policy,
    attempts=st.integers(1, 1_000),
    base_ms=st.floats(0, 1e6),
    max_delay_ms=st.floats(0, 1e6),
    deadline_ms=st.none() | st.floats(0, 1e7),
    jitter_off=st.booleans(),
)


@given(
    policies,
    st.integers(1, 1_000),
    st.text(),
    st.booleans(),
    st.floats(0, 1e5),
    st.none() | st.floats(0, 1e5),
)
def test_the_rule_keeps_its_bounds(
    policy: Policy,
    failures: int,
    key: str,
    is_retryable: bool,
    elapsed: float,
    hint: float | None,
) -> None:
    def judge() -> Again | Stop:
        return after_failure(
            policy,
            failures,
            key=key,
            is_retryable=is_retryable,
            elapsed_seconds=elapsed,
            hint_seconds=hint,
        )

    verdict = judge()
    assert verdict == judge()
    if isinstance(verdict, Stop):
        assert (verdict.reason is Reason.REFUSED) == (not is_retryable)
        if verdict.reason is Reason.DEADLINE:
            assert policy.deadline_ms is not None
        return
    assert failures < policy.attempts
    assert verdict.delay_seconds <= max(policy.max_delay_ms / 1_000, hint or 0.0)
    assert verdict.delay_seconds >= (hint or 0.0)
    whole = min(policy.base_ms * 2.0 ** min(failures - 1, 62), policy.max_delay_ms) / 1_000
    assert verdict.delay_seconds >= whole * (1.0 if policy.jitter_off else 0.5)
    if policy.deadline_ms is not None:
        assert elapsed + verdict.delay_seconds <= policy.deadline_ms / 1_000


@given(st.text(), st.integers(1, 10_000))
def test_jitter_is_a_share_of_half_or_more(key: str, attempt: int) -> None:
    assert 0.5 <= rules.half_jitter(key, attempt) < 1.0
    assert rules.half_jitter(key, attempt) == rules.half_jitter(key, attempt)


def test_jitter_spreads_evenly() -> None:
    shares = [rules.half_jitter(f"order-{n}", 1) for n in range(4_000)]
    counts = [sum(0.5 + n * 0.05 <= share < 0.55 + n * 0.05 for share in shares) for n in range(10)]
    assert min(counts) > 320
    assert max(counts) < 480


@given(
    st.lists(
        st.tuples(st.sampled_from(["call", "take"]), st.floats(0, 5)), min_size=1, max_size=60
    ),
    st.builds(
        Allowance,
        capacity=st.floats(1, 20),
        per_call=st.floats(0, 1),
        per_second=st.floats(0, 3),
    ),
)
def test_a_budget_never_gives_more_than_it_has_got(
    moves: list[tuple[str, float]], allowance: Allowance
) -> None:
    budget = RetryBudget(
        capacity=allowance.capacity,
        per_call=allowance.per_call,
        per_second=allowance.per_second,
    )
    now, calls, taken = 0.0, 0, 0
    for what, seconds in moves:
        now += seconds
        if what == "call":
            budget.called(now)
            calls += 1
        else:
            taken += budget.take(now)
    earned = allowance.capacity + calls * allowance.per_call + now * allowance.per_second
    assert taken <= earned + 1e-6


def test_a_full_budget_stays_full() -> None:
    allowance = Allowance(capacity=3.0)
    full = rules.refilled(allowance, Tokens(3.0, 0.0), 1e6, calls=5)
    assert full == Tokens(3.0, 1e6)
    assert rules.spent(Tokens(0.99, 0.0)) is None
