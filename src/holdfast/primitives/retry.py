"""Trying a call again: exponential pauses, jitter that can be replayed, and an end to it.

    retry(lambda: fetch(url), attempts=5, idem_key=url)
    await aretry(lambda: fetch(url), attempts=5, idem_key=url)
    retry_with_log(...), await aretry_with_log(...)         # a line for each failed attempt

Promises: pauses depend on (idem_key, attempt) only, in every process; time passes on the injected clock
only; an error that trying cannot mend, CancelledError and KeyboardInterrupt pass at once; whoever gives up
raises the last error with a note of the attempts. Never: begins an attempt after the deadline, or without a
token of the budget. It does not break off an attempt that runs.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final, ParamSpec, TypedDict, TypeVar, Unpack, cast

import msgspec

from holdfast.clock import BlockingClock, Clock, SystemClock
from holdfast.core.check import check_callable, check_name, shown
from holdfast.core.retry import Again, RetryPolicy, Stop, StopReason, after_failure, is_late
from holdfast.core.steps import Flow, adrive, drive
from holdfast.errors import InvalidInput
from holdfast.primitives.budget import RetryBudget
from holdfast.primitives.metrics import Family, Kind, Meter, NullMeter

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
"""What a network that is away says."""
RETRIES: Final = "holdfast_retry_retries_total"
CALLS: Final = "holdfast_retry_calls_total"
DELAY_SECONDS: Final = "holdfast_retry_delay_seconds"
FAMILIES: Final = (
    Family(CALLS, Kind.COUNTER, "Calls, by how they ended: ok or why given up.", ("name", "end")),
    Family(RETRIES, Kind.COUNTER, "Attempts after the first.", ("name",)),
    Family(DELAY_SECONDS, Kind.HISTOGRAM, "Pauses before another attempt.", ("name",)),
)


class Attempt(msgspec.Struct, frozen=True):
    """A failed attempt that will be followed by another; `on_retry` is told of it."""

    number: int
    error: Exception
    delay_seconds: float


class Options(TypedDict, total=False):
    """What all forms of retry take."""

    attempts: int
    """In all, the first one included. 3."""
    base_ms: float
    """The pause after the first failure, doubled after each further one. 100."""
    max_delay_ms: float
    """No pause of ours is longer. 30 s."""
    deadline_ms: float | None
    """No attempt begins later than this after the call. None."""
    jitter_off: bool
    """Whole pauses, without the share in [0.5, 1)."""
    idem_key: str
    """What the jitter is made from; calls with different keys spread out. The function's name."""
    retryable: Callable[[Exception], bool]
    """Whether trying can mend an error. `is_retryable`."""
    budget: RetryBudget | None
    """Shared by calls of one backend, so that it is not hammered while it is down."""
    on_retry: Callable[[Attempt], None] | None
    meter: Meter
    name: str
    """For metrics."""


class Call(msgspec.Struct, frozen=True):
    """Make the attempt; the answer is its value."""


class Pause(msgspec.Struct, frozen=True):
    """Let time pass."""

    seconds: float


Step = Call | Pause


def retry(
    call: Callable[[], T],
    *,
    deterministic_clock: BlockingClock | Callable[[], float] | None = None,
    **options: Unpack[Options],
) -> T:
    """Calls until it succeeds, or trying is over. `deterministic_clock`: a clock that is read and slept on;
    a plain function of seconds is only read, and then no real time passes."""
    clock = _blocking(deterministic_clock)

    def perform(step: Step) -> object:
        if isinstance(step, Call):
            return call()
        clock.pause(step.seconds)
        return None

    return cast("T", drive(_attempts(call, clock.monotonic, options), perform))


async def aretry(
    call: Callable[[], Awaitable[T]], *, clock: Clock | None = None, **options: Unpack[Options]
) -> T:
    """The same for a call that is awaited."""
    ticking = clock or SystemClock()

    async def perform(step: Step) -> object:
        if isinstance(step, Call):
            return await call()
        await ticking.sleep(step.seconds)
        return None

    return cast("T", await adrive(_attempts(call, ticking.monotonic, options), perform))


def retry_with_log(
    call: Callable[[], T],
    *,
    logger: logging.Logger | None = None,
    deterministic_clock: BlockingClock | Callable[[], float] | None = None,
    **options: Unpack[Options],
) -> T:
    """`retry` that writes a line for each failed attempt."""
    with _logged(logger, options) as told:
        return retry(call, deterministic_clock=deterministic_clock, **told)


async def aretry_with_log(
    call: Callable[[], Awaitable[T]],
    *,
    logger: logging.Logger | None = None,
    clock: Clock | None = None,
    **options: Unpack[Options],
) -> T:
    """The same for a call that is awaited."""
    with _logged(logger, options) as told:
        return await aretry(call, clock=clock, **told)


@contextmanager
def _logged(logger: logging.Logger | None, options: Options) -> Iterator[Options]:
    """The options of a retry that writes a line for each failed attempt, and one when it gives up."""
    check_options(options)
    log = logger or logging.getLogger(__name__)
    attempts, tell = options.get("attempts", 3), options.get("on_retry")

    def told(attempt: Attempt) -> None:
        log.warning(
            "[RETRY] attempt %d/%d failed: %s; next in %.0f ms",
            attempt.number,
            attempts,
            attempt.error,
            attempt.delay_seconds * 1_000,
        )
        if tell is not None:
            tell(attempt)

    try:
        yield Options(**{**options, "on_retry": told})
    except Exception as error:
        log.error("[RETRY] gave up: %s", error)  # noqa: TRY400 - the error is raised, not lost
        raise


def retrying(**options: Unpack[Options]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function, plain or async, that retries by itself."""

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

        return cast("Callable[P, T]", awaited) if iscoroutinefunction(function) else called

    return wrap


def is_retryable(error: Exception) -> bool:
    """What may go away by itself: errors that say so (`retryable`, as ours do), timeouts, lost connections, a
    network or a name service that cannot be reached at the moment."""
    says = getattr(error, "retryable", None)
    if isinstance(says, bool):
        return says
    match error:
        case ConnectionError() | TimeoutError():
            return True
        case socket.gaierror():
            return error.errno == socket.EAI_AGAIN
        case OSError(errno=None):
            # asyncio's, when every address of a host failed in another way.
            return str(error).startswith("Multiple exceptions: ")
        case OSError():
            return error.errno in NETWORK
    return False


def check_options(options: Options) -> None:
    """InvalidInput that names a wrong option, before the first attempt; `Policy` checks the numbers."""
    given: dict[str, Any] = dict(options)
    if (key := given.get("idem_key")) is not None and not _is_text(key):
        raise InvalidInput(f"idem_key is {shown(key)}: give text that UTF-8 can carry")
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
    """The whole of it: what to do next, given how it went and what time it is."""
    check_callable("call", call)
    check_options(options)
    given: dict[str, Any] = dict(options)
    key = given.pop("idem_key", None) or _name(call)
    decides = given.pop("retryable", is_retryable)
    budget: RetryBudget | None = given.pop("budget", None)
    tell = given.pop("on_retry", None)
    meter: Meter = given.pop("meter", None) or NullMeter()
    name = given.pop("name", "call")
    policy = RetryPolicy(**given)
    begun, failures = now(), 0
    last: Exception
    if budget is not None:
        budget.called(begun)
    while True:
        try:
            value = yield Call()
        except Exception as error:
            failures += 1
            verdict = after_failure(
                policy,
                failures,
                key=key,
                is_retryable=decides(error),
                elapsed_seconds=now() - begun,
                hint_seconds=_hint(error),
            )
            if isinstance(verdict, Again) and budget is not None and not budget.take(now()):
                verdict = Stop(StopReason.BUDGET)
            if isinstance(verdict, Stop):
                meter.count(CALLS, name=name, end=verdict.reason.value)
                error.add_note(_note(verdict.reason, failures, now() - begun))
                raise
            if tell is not None:
                tell(Attempt(failures, error, verdict.delay_seconds))
            last = error
        else:
            meter.count(CALLS, name=name, end="ok")
            return value
        meter.observe(DELAY_SECONDS, verdict.delay_seconds, name=name)
        yield Pause(verdict.delay_seconds)
        if is_late(policy, now() - begun):
            meter.count(CALLS, name=name, end=StopReason.DEADLINE.value)
            last.add_note(_note(StopReason.DEADLINE, failures, now() - begun))
            raise last
        meter.count(RETRIES, name=name)


def _note(reason: StopReason, failures: int, seconds: float) -> str:
    times = "1 attempt" if failures == 1 else f"{failures} attempts"
    return f"holdfast retry: gave up after {times} in {seconds:.3f} s ({reason.value})"


def _hint(error: Exception) -> float | None:
    """The pause that the other side asks for: `retry_after`, in seconds."""
    hint = getattr(error, "retry_after", None)
    return float(hint) if isinstance(hint, int | float) and hint >= 0 else None


def _name(call: object) -> str:
    """The same in every process, unlike `repr`."""
    found = getattr(call, "__qualname__", type(call).__qualname__)
    return f"{getattr(call, '__module__', '')}.{found}"


class _Read:
    """A clock that can only be read: its pauses take no real time, but they count."""

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
    return cast("BlockingClock", clock) if hasattr(clock, "pause") else _Read(cast("Any", clock))
