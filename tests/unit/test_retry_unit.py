"""Retry: exponential backoff, deterministic jitter, exhaustion, success on the N-th attempt; sync and async.

The first four are the seed's scenarios, under its names.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys

import pytest

from holdfast.clock import VirtualClock
from holdfast.primitives.retry import (
    aretry,
    retry,
    retry_with_log,
    retrying,
)
from tests.acceptance.apps.harness import eventually
from tests.unit.retry_support import Flaky, clock, given_up

__all__ = ["clock"]  # a fixture


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
    """The same in every process, independent of the hash seed of Python."""
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
    assert len({f"{share:.6f}" for share in shares}) == 5, "the share differs by attempt"
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


async def test_aretry_behaves_like_retry(clock: VirtualClock) -> None:
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


async def test_a_decorated_function_keeps_its_name_and_kind(clock: VirtualClock) -> None:
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
async def test_cancellation_and_exit_are_never_retried(error: BaseException) -> None:
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
