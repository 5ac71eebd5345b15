"""Retries of a call: exponential backoff, reproducible jitter, and limits.

    retry(lambda: fetch(url), attempts=5, idem_key=url)
    await aretry(lambda: fetch(url), attempts=5, idem_key=url)
    retry_with_log(...), await aretry_with_log(...)         # logs each failed attempt

Promises: the jitter depends on (idem_key, attempt) only, so it is the same in every process. Time is read
from the injected clock only. CancelledError, KeyboardInterrupt and errors that are not retryable are raised
at once. The last error is raised with a note about the attempts.
Never: starts an attempt after the deadline, or a retry without a token of the budget; interrupts an attempt.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, ParamSpec, TypedDict, TypeVar, Unpack, cast

import msgspec

from holdfast.clock import BlockingClock, Clock, SystemClock
from holdfast.core.callables import awaitable, check_plain, is_async, plain
from holdfast.core.check import check_callable, check_name, shown
from holdfast.core.plural import noun_for
from holdfast.core.retry import Again, RetryPolicy, Stop, StopReason, after_failure, is_late
from holdfast.core.steps import Flow, adrive, drive
from holdfast.errors import InvalidInput
from holdfast.metrics import Family, Kind, Meter, NullMeter
from holdfast.primitives.budget import RetryBudget

__all__ = [
    "FAMILIES",
    "Attempt",
    "RetryBudget",
    "StopReason",
    "aretry",
    "aretry_with_log",
    "is_retryable",
    "retry",
    "retry_with_log",
    "retrying",
]

T = TypeVar("T")
P = ParamSpec("P")
NETWORK: Final = frozenset(
    {
        *(errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH),
        *(errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.ETIMEDOUT, errno.EPIPE),
    }
)
"""Errors of an unreachable network."""
SYNC_HELP: Final = "use `await aretry(...)`"
ASYNC_HELP: Final = "use `retry` for a plain function, or give an async one"
RETRIES: Final = "holdfast_retry_retries_total"
CALLS: Final = "holdfast_retry_calls_total"
DELAY_SECONDS: Final = "holdfast_retry_delay_seconds"
FAMILIES: Final = (
    Family(
        CALLS,
        Kind.COUNTER,
        "Calls, by how they ended: ok, or why they were given up.",
        ("name", "end"),
    ),
    Family(RETRIES, Kind.COUNTER, "Attempts after the first.", ("name",)),
    Family(DELAY_SECONDS, Kind.HISTOGRAM, "Pauses before a retry.", ("name",)),
)


class Attempt(msgspec.Struct, frozen=True):
    """A failed attempt that is followed by another; the argument of `on_retry`."""

    number: int
    error: Exception
    delay_seconds: float


class Options(TypedDict, total=False):
    """Options of all forms of retry."""

    attempts: int
    """Most attempts, the first included. Default 3."""
    base_ms: float
    """The pause after the first failure, doubled after each further one. Default 100."""
    max_delay_ms: float
    """The longest pause. Default 30 s."""
    deadline_ms: float | None
    """No attempt starts later than this after the call. Default None."""
    jitter_off: bool
    """Pauses are not shortened by jitter, a factor in [0.5, 1)."""
    idem_key: str
    """The seed of the jitter; calls with different keys spread out. Default: the function's name."""
    retryable: Callable[[Exception], bool]
    """Whether a retry may succeed after an error. Default `is_retryable`."""
    budget: RetryBudget | None
    """Shared by the calls of one backend, to limit retries while it is down."""
    on_retry: Callable[[Attempt], None] | None
    meter: Meter
    name: str
    """The label of its metrics."""


class Call(msgspec.Struct, frozen=True):
    """Make the attempt; the answer is its result."""


class Pause(msgspec.Struct, frozen=True):
    """Wait before the next attempt."""

    seconds: float


Step = Call | Pause


def retry(
    call: Callable[[], T],
    *,
    deterministic_clock: BlockingClock | Callable[[], float] | None = None,
    **options: Unpack[Options],
) -> T:
    """Calls until the call succeeds or a limit is reached. `deterministic_clock`: a clock, or a function that
    returns seconds; with a function, pauses take no real time."""
    check_plain("call", call, SYNC_HELP)
    clock = _blocking(deterministic_clock)

    def perform(step: Step) -> object:
        if isinstance(step, Call):
            return plain("call", call(), SYNC_HELP)
        clock.pause(step.seconds)
        return None

    return cast("T", drive(_attempts(call, clock.monotonic, options), perform))


async def aretry(
    call: Callable[[], Awaitable[T]], *, clock: Clock | None = None, **options: Unpack[Options]
) -> T:
    """`retry` for an awaitable call."""
    used_clock = clock or SystemClock()

    async def perform(step: Step) -> object:
        if isinstance(step, Call):
            return await awaitable("call", call(), ASYNC_HELP)
        await used_clock.sleep(step.seconds)
        return None

    return cast("T", await adrive(_attempts(call, used_clock.monotonic, options), perform))


def retry_with_log(
    call: Callable[[], T],
    *,
    logger: logging.Logger | None = None,
    deterministic_clock: BlockingClock | Callable[[], float] | None = None,
    **options: Unpack[Options],
) -> T:
    """`retry` that logs each failed attempt."""
    with _logged(logger, options) as logged_options:
        return retry(call, deterministic_clock=deterministic_clock, **logged_options)


async def aretry_with_log(
    call: Callable[[], Awaitable[T]],
    *,
    logger: logging.Logger | None = None,
    clock: Clock | None = None,
    **options: Unpack[Options],
) -> T:
    """`retry_with_log` for an awaitable call."""
    with _logged(logger, options) as logged_options:
        return await aretry(call, clock=clock, **logged_options)


@contextmanager
def _logged(logger: logging.Logger | None, options: Options) -> Iterator[Options]:
    """The options with an `on_retry` that logs each failed attempt. Also logs the final error."""
    check_options(options)
    log = logger or logging.getLogger(__name__)
    attempts, on_retry = options.get("attempts", 3), options.get("on_retry")

    def log_attempt(attempt: Attempt) -> None:
        log.warning(
            "[RETRY] attempt %d/%d failed: %s; next in %.0f ms",
            attempt.number,
            attempts,
            attempt.error,
            attempt.delay_seconds * 1_000,
        )
        if on_retry is not None:
            on_retry(attempt)

    try:
        yield Options(**{**options, "on_retry": log_attempt})
    except Exception as error:
        log.error("[RETRY] gave up: %s", error)  # noqa: TRY400 - the error is raised, not lost
        raise


def retrying(**options: Unpack[Options]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a function, plain or async, so that its calls are retried."""

    check_options(options)

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        check_callable("function", function)
        named = Options(idem_key=_name(function))
        named.update(options)

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            return retry(lambda: function(*args, **kwargs), **named)

        @wraps(function)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            return await aretry(lambda: cast("Any", function(*args, **kwargs)), **named)

        return cast("Callable[P, T]", awaited) if is_async(function) else called

    return wrap


def is_retryable(error: Exception) -> bool:
    """Whether an error may be temporary: one whose attribute `retryable` is true (as for Holdfast errors), a
    timeout, a lost connection, an unreachable network or name service."""
    declared = getattr(error, "retryable", None)
    if isinstance(declared, bool):
        return declared
    match error:
        case ConnectionError() | TimeoutError():
            return True
        case socket.gaierror():
            return error.errno == socket.EAI_AGAIN
        case OSError(errno=None):
            # asyncio raises this when the addresses of a host failed in different ways.
            return str(error).startswith("Multiple exceptions: ")
        case OSError():
            return error.errno in NETWORK
    return False


def check_options(options: Options) -> None:
    """Raises InvalidInput that names a wrong option. `RetryPolicy` checks the numbers."""
    given: dict[str, Any] = dict(options)
    if (key := given.get("idem_key")) is not None and not _is_text(key):
        raise InvalidInput(f"idem_key is {shown(key)}: give text that UTF-8 can encode")
    if "name" in given:
        check_name("name", given["name"])
    if "retryable" in given:
        check_callable("retryable", given["retryable"])
    if given.get("on_retry") is not None:
        check_callable("on_retry", given["on_retry"])
    if not isinstance(budget := given.get("budget"), RetryBudget | None):
        raise InvalidInput(f"budget is {shown(budget)}: give a RetryBudget")
    RetryPolicy(
        **{name: value for name, value in given.items() if name in RetryPolicy.__struct_fields__}
    )


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _attempts(
    call: Callable[[], object], now: Callable[[], float], options: Options
) -> Flow[Step, Any]:
    """The steps of a retried call: an attempt, then a pause or the end."""
    check_callable("call", call)
    check_options(options)
    given: dict[str, Any] = dict(options)
    key = given.pop("idem_key", None) or _name(call)
    retryable = given.pop("retryable", is_retryable)
    budget: RetryBudget | None = given.pop("budget", None)
    on_retry = given.pop("on_retry", None)
    meter: Meter = given.pop("meter", None) or NullMeter()
    name = given.pop("name", "call")
    policy = RetryPolicy(**given)
    started_at, failures = now(), 0
    last_error: Exception
    if budget is not None:
        budget.called(started_at)
    while True:
        try:
            value = yield Call()
        except Exception as error:
            failures += 1
            verdict = after_failure(
                policy,
                failures,
                key=key,
                is_retryable=retryable(error),
                elapsed_seconds=now() - started_at,
                hint_seconds=_hint(error),
            )
            if isinstance(verdict, Again) and budget is not None and not budget.take(now()):
                verdict = Stop(StopReason.BUDGET)
            if isinstance(verdict, Stop):
                meter.count(CALLS, name=name, end=verdict.reason.value)
                error.add_note(_note(verdict.reason, failures, now() - started_at))
                raise
            if on_retry is not None:
                on_retry(Attempt(failures, error, verdict.delay_seconds))
            last_error = error
        else:
            meter.count(CALLS, name=name, end="ok")
            return value
        meter.observe(DELAY_SECONDS, verdict.delay_seconds, name=name)
        yield Pause(verdict.delay_seconds)
        if is_late(policy, now() - started_at):
            meter.count(CALLS, name=name, end=StopReason.DEADLINE.value)
            last_error.add_note(_note(StopReason.DEADLINE, failures, now() - started_at))
            raise last_error
        meter.count(RETRIES, name=name)


def _note(reason: StopReason, failures: int, seconds: float) -> str:
    times = f"{failures} {noun_for(failures, 'attempt')}"
    return f"holdfast retry: gave up after {times} in {seconds:.3f} s ({reason.value})"


def _hint(error: Exception) -> float | None:
    """The pause that the error asks for: its `retry_after`, in seconds."""
    hint = getattr(error, "retry_after", None)
    return float(hint) if isinstance(hint, int | float) and hint >= 0 else None


def _name(call: object) -> str:
    """The qualified name: the same in every process, unlike `repr`."""
    qualname = getattr(call, "__qualname__", type(call).__qualname__)
    return f"{getattr(call, '__module__', '')}.{qualname}"


class _FunctionClock:
    """A clock over a function. Its pauses take no real time; they move the clock forward."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._paused = 0.0

    def now(self) -> float:
        return self._read() + self._paused

    monotonic = now

    def pause(self, seconds: float) -> None:
        self._paused += seconds


def _blocking(clock: BlockingClock | Callable[[], float] | None) -> BlockingClock:
    if clock is None:
        return SystemClock()
    if not hasattr(clock, "pause"):
        check_callable("deterministic_clock", clock)
    return (
        cast("BlockingClock", clock)
        if hasattr(clock, "pause")
        else _FunctionClock(cast("Any", clock))
    )
