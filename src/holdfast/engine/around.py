"""Middleware: functions around the handlers of a queue.

Promises: the first that was added is the outermost. An async one runs in the event loop of the worker, around
handlers of every kind. A plain one runs where plain handlers run, in their thread or process, inside the
async ones; handlers in the event loop do without it, because it would block them. What middleware returns or
raises is the outcome of the handler. The timeout of a task covers its middleware.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

from holdfast.core.callables import check_one_value, is_async, signature_of
from holdfast.core.check import shown
from holdfast.engine.blocking_context import BlockingContext
from holdfast.engine.context import Context
from holdfast.errors import BadConfig

Middleware: TypeAlias = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Takes the context and the call of what it is around, which it awaits."""
BlockingMiddleware: TypeAlias = Callable[[BlockingContext, Callable[[], Any]], Any]
"""Takes the context and the call of what it is around, which blocks."""
Enqueuing: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[str], None]]]
"""Takes the type and the number of the new tasks. What it yields takes the id of the task."""
ImportPath: TypeAlias = tuple[str, str]
T = TypeVar("T")
TAKES = 2


class Around:
    """The middleware of one queue."""

    def __init__(self) -> None:
        self.in_loop: tuple[Middleware, ...] = ()
        self.in_place: tuple[BlockingMiddleware, ...] = ()
        """In the thread or the process of a plain handler."""
        self.enqueuing: Enqueuing | None = None
        """Around an enqueue of this queue (`holdfast.otel`)."""

    def add(self, function: Callable[..., Any]) -> None:
        """Adds one. BadConfig if it cannot be around a handler."""
        check_middleware(function)
        if is_async(function):
            self.in_loop = (*self.in_loop, function)
        else:
            self.in_place = (*self.in_place, function)

    def paths(self) -> tuple[ImportPath, ...]:
        """Where the process of a handler imports plain middleware from. BadConfig if it cannot."""
        return tuple(_path_of(function) for function in self.in_place)


def through(layers: Sequence[Callable[..., T]], context: object, call: Callable[[], T]) -> T:
    """Calls a handler with middleware around it."""
    for layer in reversed(layers):
        call = functools.partial(layer, context, call)
    return call()


def check_middleware(function: object) -> None:
    """BadConfig for what does not take the context and the call."""
    if not callable(function):
        raise BadConfig(f"middleware is {shown(function)}: give a function (ctx, call_next)")
    check_one_value("middleware", function, wrong=BadConfig)
    try:
        signature_of(function).bind(*range(TAKES))
    except TypeError:
        raise BadConfig(
            f"middleware {shown(function)} does not take two arguments: define it as (ctx, call_next)"
        ) from None
    except ValueError:
        return  # Written in C: its parameters are not known.


def _path_of(function: Callable[..., Any]) -> ImportPath:
    name = str(getattr(function, "__qualname__", ""))
    module = getattr(function, "__module__", "")
    if not name or "<" in name or not module or inspect.ismethod(function):
        raise BadConfig(
            f"plain middleware also runs in the processes of handlers, so it must be a function at the top "
            f"level of a module, not {shown(function)}: move it there, or make it async"
        )
    return module, name
