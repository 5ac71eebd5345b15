"""Plain and async functions, where a call takes one kind.

Promises: an async function in a blocking call is refused before it runs. A plain value of an effect is its
answer, also where the effect may be async: it has happened, and an error would repeat it. A signature can be
read before the names in its annotations exist, on each version of Python.
Never: calls a function.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from holdfast.core.check import check_callable, shown
from holdfast.errors import InvalidInput

if sys.version_info >= (3, 14):
    from annotationlib import Format

T = TypeVar("T")
PLAIN_EFFECT: Final = "give a plain function, or use an async handler or the async `Ledger`"


def is_async(function: object) -> bool:
    """Whether a call certainly returns a coroutine. False for a lambda that returns one."""
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - its kind, not whether it exists
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature. If an annotation cannot be evaluated, all of them are text, as with
    `from __future__ import annotations`: Python 3.14 evaluates annotations only when they are read."""
    try:
        return inspect.signature(function)
    except Exception:
        if sys.version_info >= (3, 14):
            return inspect.signature(function, annotation_format=Format.STRING)
        raise


def check_one_value(
    field: str, function: object, *, wrong: type[InvalidInput] = InvalidInput
) -> None:
    """Refuses what is not a function that returns one value: a class, a generator."""
    if not callable(function):
        raise wrong(f"{field} must be a function, not {shown(function)}")
    if inspect.isclass(function):
        raise wrong(f"{field} must be a function, not the class {function.__qualname__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise wrong(
            f"{field} returns one value, but {shown(function)} is a generator: return a list in place of "
            "`yield`"
        )


def check_plain(field: str, function: object, instead: str) -> None:
    """InvalidInput unless this is a function that may be called without `await`."""
    check_callable(field, function)
    if is_async(function):
        raise InvalidInput(f"{field} is an async function, which cannot be awaited here: {instead}")


def plain(field: str, value: T, instead: str) -> T:
    """The value of a call that is not awaited. A coroutine, which has not begun, is refused."""
    if inspect.iscoroutine(value):
        value.close()
        raise InvalidInput(f"{field} returned a coroutine, which cannot be awaited here: {instead}")
    return value


async def answer_of(value: Awaitable[object] | object) -> object:
    """The answer of an effect that may be async or plain."""
    return await value if inspect.isawaitable(value) else value


def awaitable(field: str, value: T, instead: str) -> T:
    """The value of a call that is awaited. InvalidInput if there is nothing to await."""
    if not inspect.isawaitable(value):
        kind = type(value).__name__
        raise InvalidInput(f"{field} ran and returned {kind}, which cannot be awaited: {instead}")
    return value
