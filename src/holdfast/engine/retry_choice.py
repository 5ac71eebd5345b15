"""Whether and when a failed attempt is repeated: what a handler asks for with `Retry`, and the options
`retry_on`, `give_up_on` and `retry_delay` of its type.

Promises: an error of `give_up_on` makes a dead letter at once, whatever `retry_on` says. With `retry_on`,
every other error does so too. Subclasses count. `Retry` comes before both. A `retry_delay` function that
fails leaves the usual pause. Never: applies to timeouts and to workers that died.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan
from typing import Final, TypeAlias

import msgspec

from holdfast.core.check import shown
from holdfast.core.seconds import Seconds, check_seconds, in_seconds
from holdfast.errors import BadConfig

Errors = tuple[type[BaseException], ...]
RetryDelay: TypeAlias = Callable[[int, BaseException], Seconds | None]
"""The pause after the failed attempt of this number (the first is 1) with this error. None: the usual one."""
RETRY_SECONDS_MAX: Final = 366 * 86_400.0


class Retry(Exception):
    """Raise or return this in a handler to have the task tried again: `after` seconds (or a timedelta), by
    default after the usual pause. A time below 0 counts as 0. The attempt counts. `raise Retry(after=60) from
    error` keeps that error as the evidence."""

    def __init__(self, reason: str = "", *, after: Seconds | None = None) -> None:
        super().__init__(reason or "the handler asked for another attempt")
        self.reason = reason
        self.after_seconds = None if after is None else _pause("after", after)

    @property
    def evidence(self) -> BaseException:
        """The error to record."""
        return self if self.reason or self.__cause__ is None else self.__cause__


class AfterFailure(msgspec.Struct, frozen=True):
    """What follows a failed attempt."""

    gives_up: bool = False
    pause_seconds: float | None = None
    """None: the usual pause."""
    problem: str = ""
    """Why the function of `retry_delay` did not give a pause."""


class RetryChoice(msgspec.Struct, frozen=True):
    """The errors of one type that are tried again, and when. None: all others are."""

    retry_on: Errors | None = None
    give_up_on: Errors = ()
    delay: RetryDelay | None = None

    def gives_up(self, error: BaseException) -> bool:
        """Whether there is no further attempt after this error."""
        if isinstance(error, self.give_up_on):
            return True
        return self.retry_on is not None and not isinstance(error, self.retry_on)

    def judge(self, attempt: int, error: BaseException) -> AfterFailure:
        """What follows the failed attempt of this number."""
        if self.gives_up(error):
            return AfterFailure(gives_up=True)
        if self.delay is None:
            return USUAL
        try:
            given = self.delay(attempt, error)
            seconds = None if given is None else _pause("the pause", given)
        except Exception as wrong:
            return AfterFailure(problem=f"{type(wrong).__qualname__}: {wrong}")
        return AfterFailure(pause_seconds=seconds)


USUAL: Final = AfterFailure()


def _pause(name: str, given: Seconds) -> float:
    """A pause within its bounds. A handler often computes it, e.g. until a moment that has just passed."""
    seconds = in_seconds(given)
    if isinstance(seconds, int | float) and not isnan(seconds):
        seconds = min(max(0, seconds), RETRY_SECONDS_MAX)
    return check_seconds(name, seconds, most=RETRY_SECONDS_MAX)


def after_failure(choice: RetryChoice | None, attempt: int, error: BaseException) -> AfterFailure:
    """What follows an error of a handler, whose type has this choice."""
    if isinstance(error, Retry):
        return AfterFailure(pause_seconds=error.after_seconds)
    return USUAL if choice is None else choice.judge(attempt, error)


def retry_choice(options: Mapping[str, object]) -> RetryChoice | None:
    """The choice of a type. None if it has none. BadConfig for what is not a class of errors."""
    retry_on, give_up_on = options.get("retry_on"), options.get("give_up_on")
    delay = options.get("retry_delay")
    function = delay if callable(delay) else None
    if retry_on is None and give_up_on is None and function is None:
        return None
    return RetryChoice(
        None if retry_on is None else _errors("retry_on", retry_on),
        () if give_up_on is None else _errors("give_up_on", give_up_on),
        function,
    )


def check_portable(task_type: str, choice: RetryChoice | None) -> None:
    """BadConfig if the process of a handler could not import the function of `retry_delay`."""
    if choice is None or choice.delay is None:
        return
    name = str(getattr(choice.delay, "__qualname__", ""))
    if not name or "<" in name:
        raise BadConfig(
            f"the handler of '{task_type}' runs in a process, so its retry_delay must be a function at the "
            f"top level of a module, not {shown(choice.delay)}"
        )


def _errors(name: str, given: object) -> Errors:
    kinds = given if isinstance(given, tuple) else (given,)
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise BadConfig(f"{name} is {shown(given)}: give a class of errors, or a tuple of them")
    if not kinds:
        raise BadConfig(f"{name} is empty: leave it out, or give a class of errors")
    return kinds
