"""The decorator `@queue.task`.

Promises: type checkers see the function's parameters without the context, and the type of its result without
`Snooze`, `Cancel` and `Retry`. They can leave out the context only if it is the first parameter. If it is the
second or the third, or if a parameter there takes any object, the arguments are not checked before run time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, Unpack, overload

from holdfast.core.check import shown
from holdfast.core.command import Cancel, Snooze
from holdfast.engine.blocking_context import BlockingContext
from holdfast.engine.context import Context
from holdfast.engine.handlers import Handler, for_arguments
from holdfast.engine.retry_choice import Retry
from holdfast.errors import BadConfig
from holdfast.queue.blocking_calls import BlockingCalls
from holdfast.queue.define import TypeOptions, type_config
from holdfast.queue.function import DefinedTask, Enqueue

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")
Define: TypeAlias = Callable[[Handler, TypeOptions], None]
"""Adds a handler to a queue."""
Coro: TypeAlias = Coroutine[Any, Any, R]
NoResult: TypeAlias = Snooze | Cancel | Retry
"""What a handler may return beside its result."""

if TYPE_CHECKING:

    class AnyContext(Context, BlockingContext):  # type: ignore[misc]
        """A parameter that takes it is annotated with one of the contexts, or takes any object."""

    class NoContext:
        """A parameter that takes it takes any object."""


def name_of(function: object) -> str:
    """The name of a task that is given none."""
    if isinstance(function, str):
        raise BadConfig(
            f"@queue.task decorates a function; the name of the task is given as name={function!r}"
        )
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise BadConfig(f"{shown(function)} has no name: give the task one with name=...")
    return name


class TaskDecorator:
    """Makes functions task types of one queue. Bad options raise before a function is decorated."""

    def __init__(
        self,
        define: Define,
        enqueue: Enqueue,
        calls: BlockingCalls,
        name: str | None = None,
        options: TypeOptions | None = None,
    ) -> None:
        self._define = define
        self._enqueue = enqueue
        self._calls = calls
        self._name = name
        self._options: TypeOptions = {} if options is None else options
        self._config = type_config(self._options)

    # The first overload that matches counts: their overlaps are wanted.
    @overload
    def __call__(
        self, function: Callable[Concatenate[NoContext, P], Coro[R | NoResult]], /
    ) -> DefinedTask[..., R, ..., Coro[R]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[AnyContext, P], Coro[R | NoResult]], /
    ) -> DefinedTask[P, R, ..., Coro[R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[A, AnyContext, P], Coro[R | NoResult]], /
    ) -> DefinedTask[..., R, ..., Coro[R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[A, B, AnyContext, P], Coro[R | NoResult]], /
    ) -> DefinedTask[..., R, ..., Coro[R]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coro[R | NoResult]], /
    ) -> DefinedTask[P, R, P, Coro[R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[NoContext, P], R | NoResult], /
    ) -> DefinedTask[..., R, ..., R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[AnyContext, P], R | NoResult], /
    ) -> DefinedTask[P, R, ..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[A, AnyContext, P], R | NoResult], /
    ) -> DefinedTask[..., R, ..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[A, B, AnyContext, P], R | NoResult], /
    ) -> DefinedTask[..., R, ..., R]: ...
    @overload
    def __call__(self, function: Callable[P, R | NoResult], /) -> DefinedTask[P, R, P, R]: ...
    @overload
    def __call__(
        self, function: None = None, /, *, name: str | None = None, **options: Unpack[TypeOptions]
    ) -> TaskDecorator: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        **options: Unpack[TypeOptions],
    ) -> Any:
        if function is None or name is not None or options:
            made = TaskDecorator(self._define, self._enqueue, self._calls, name, options)
            return made if function is None else made(function)
        task_type = self._name
        if task_type is None:
            task_type = name_of(function)
        handler = for_arguments(task_type, function, self._config, self._options.get("isolation"))
        self._define(handler, self._options)
        return DefinedTask(self._enqueue, self._calls, handler, function)
