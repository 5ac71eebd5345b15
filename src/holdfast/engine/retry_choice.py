"""Which errors of a handler are worth another attempt: the options `retry_on` and `give_up_on` of a type.

Promises: an error of `give_up_on` makes a dead letter at once, whatever `retry_on` says. With `retry_on`,
every other error does so too. Subclasses count. Never: applies to timeouts and to workers that died.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.check import shown
from holdfast.errors import BadConfig

Errors = tuple[type[BaseException], ...]


class RetryChoice(msgspec.Struct, frozen=True):
    """The errors of one type that are tried again. None: all others are."""

    retry_on: Errors | None = None
    give_up_on: Errors = ()

    def gives_up(self, error: BaseException) -> bool:
        """Whether there is no further attempt after this error."""
        if isinstance(error, self.give_up_on):
            return True
        return self.retry_on is not None and not isinstance(error, self.retry_on)


def retry_choice(options: Mapping[str, object]) -> RetryChoice | None:
    """The choice of a type. None if it has none. BadConfig for what is not a class of errors."""
    retry_on, give_up_on = options.get("retry_on"), options.get("give_up_on")
    if retry_on is None and give_up_on is None:
        return None
    return RetryChoice(
        None if retry_on is None else _errors("retry_on", retry_on),
        () if give_up_on is None else _errors("give_up_on", give_up_on),
    )


def _errors(name: str, given: object) -> Errors:
    kinds = given if isinstance(given, tuple) else (given,)
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise BadConfig(f"{name} is {shown(given)}: give a class of errors, or a tuple of them")
    if not kinds:
        raise BadConfig(f"{name} is empty: leave it out, or give a class of errors")
    return kinds
