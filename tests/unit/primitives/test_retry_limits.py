"""Retry limits: which errors, attempts, deadline, budget; and `on_retry`."""

from __future__ import annotations

import errno
import socket
import threading
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.errors import InProgress, InvalidInput, StoreBusy
from holdfast.metrics import Metrics
from holdfast.primitives import retry as module
from holdfast.primitives.retry import (
    Attempt,
    RetryBudget,
    aretry_with_log,
    retry,
    retry_with_log,
)
from tests.unit.retry_support import Flaky, clock, given_up

__all__ = ["clock"]  # a fixture


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
        (OSError(errno.ENETUNREACH, "Network is unreachable"), 3),
        (OSError(errno.EHOSTUNREACH, "No route to host"), 3),
        (OSError(errno.ENOSPC, "No space left on device"), 1),
        (OSError("Multiple exceptions: [Errno 111] refused, [Errno 101] unreachable"), 3),
        (OSError("something else"), 1),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), 3),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), 1),
    ],
)
def test_only_temporary_errors_are_retried(
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


def test_pauses_are_capped(clock: VirtualClock) -> None:
    flaky = Flaky(clock, 7)
    retry(flaky, attempts=8, max_delay_ms=500.0, jitter_off=True, deterministic_clock=clock)
    assert flaky.pauses == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5, 0.5, 0.5])


def test_no_attempt_starts_after_the_deadline(clock: VirtualClock) -> None:
    flaky = Flaky(clock, 99)
    error = given_up(flaky, clock, attempts=50, deadline_ms=750.0, jitter_off=True)
    assert flaky.at == pytest.approx([0.0, 0.1, 0.3, 0.7])
    assert "(deadline)" in error.__notes__[0]


def test_retry_after_is_honoured(clock: VirtualClock) -> None:
    class Limited(ConnectionError):
        retry_after = 2.5

    flaky = Flaky(clock, 2, Limited())
    retry(flaky, max_delay_ms=200.0, jitter_off=True, deterministic_clock=clock)
    assert flaky.pauses == pytest.approx([2.5, 2.5])
    Limited.retry_after = 4_000.0
    assert "(hint)" in given_up(Flaky(clock, 2, Limited()), clock).__notes__[0]


def test_a_clock_function_makes_pauses_take_no_real_time() -> None:
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


def test_a_budget_limits_retries_against_a_dead_backend(clock: VirtualClock) -> None:
    """Fifty failing calls share ten retries, plus those added by time and calls."""
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


def test_a_budget_refills_with_time() -> None:
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


def test_on_retry_is_called_for_each_failed_attempt(clock: VirtualClock) -> None:
    failed_attempts: list[Attempt] = []
    meter = Metrics(module.FAMILIES)
    flaky = Flaky(clock, 2)
    retry(
        flaky,
        jitter_off=True,
        deterministic_clock=clock,
        on_retry=failed_attempts.append,
        meter=meter,
        name="prices",
    )
    given_up(Flaky(clock, 9, ValueError()), clock, meter=meter, name="prices")
    assert [(a.number, a.delay_seconds) for a in failed_attempts] == [(1, 0.1), (2, 0.2)]
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
def test_invalid_options_are_refused_before_the_first_attempt(options: dict[str, Any]) -> None:
    called = False

    def call() -> None:
        nonlocal called
        called = True

    with pytest.raises(InvalidInput):
        retry(call, **options)
    assert not called


def test_an_empty_budget_is_refused() -> None:
    for options in ({"capacity": 0.5}, {"per_call": -1.0}, {"per_second": -1.0}):
        with pytest.raises(InvalidInput):
            RetryBudget(**options)


class Slow(VirtualClock):
    """Pauses overrun by five seconds, as on a busy or suspended machine."""

    def pause(self, seconds: float) -> None:
        super().pause(seconds + 5.0)


def test_no_attempt_starts_after_the_deadline_even_if_a_pause_overran() -> None:
    clock = Slow()
    flaky = Flaky(clock, 9, ConnectionError("no route"))
    with pytest.raises(ConnectionError) as raised:
        retry(flaky, attempts=9, deadline_ms=1_000, deterministic_clock=clock)
    assert len(flaky.at) == 1
    assert "(deadline)" in raised.value.__notes__[0]


async def test_aretry_with_log_logs_the_same_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ConnectionError("no route")

    def fails_too() -> None:
        raise ConnectionError("no route")

    failed_attempts: list[Attempt] = []
    given: Any = {"attempts": 2, "base_ms": 0, "idem_key": "k", "on_retry": failed_attempts.append}
    with pytest.raises(ConnectionError):
        await aretry_with_log(fails, **given)
    awaited = [(r.levelname, r.getMessage()) for r in caplog.records]
    caplog.clear()
    with pytest.raises(ConnectionError):
        retry_with_log(fails_too, **given)
    assert awaited == [(r.levelname, r.getMessage()) for r in caplog.records]
    assert [level for level, _ in awaited] == ["WARNING", "ERROR"]
    assert len(failed_attempts) == 2
