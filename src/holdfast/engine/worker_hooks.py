"""Start and stop hooks of a worker, and the state that they give to handlers.

Promises: start hooks run once for each start of workers, in order, before any task is claimed. Stop hooks run
in reverse order after the last handler has ended, also if a later start hook fails. A stop hook that fails is
logged, and the others run; one that takes longer than `STOP_SECONDS` is cancelled. Plain hooks run in a
thread, which is left behind then.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

from holdfast.core.callables import answer_of, is_async, signature_of
from holdfast.core.check import check_callable, shown
from holdfast.engine.loop import log
from holdfast.engine.threads import ThreadHost
from holdfast.errors import BadConfig, NotFound

T = TypeVar("T")
StartHook: TypeAlias = Callable[[], object]
"""Returns an object for the state, or yields it once and cleans up after that. It may be async."""
StopHook: TypeAlias = Callable[["WorkerState"], object]
END: Final = object()
STOP_SECONDS: Final = 60.0
"""How long one hook may take at the stop."""


class WorkerState:
    """What the start hooks of a worker gave, by class: `ctx.state[Database]` is the `Database`."""

    __slots__ = ("_by_type",)

    def __init__(self) -> None:
        self._by_type: dict[type, object] = {}

    def put(self, value: object) -> None:
        """Adds what a start hook gave. For the engine."""
        kind = type(value)
        if kind in self._by_type:
            raise BadConfig(
                f"two start hooks give a {kind.__qualname__}: handlers could not tell them apart, so give "
                "each its own class"
            )
        self._by_type[kind] = value

    def get(self, kind: type[T]) -> T | None:
        """The object of this class, or of a class derived from it. None if there is none."""
        exact = self._by_type.get(kind)
        if exact is not None and isinstance(exact, kind):
            return exact
        found = [value for value in self._by_type.values() if isinstance(value, kind)]
        if len(found) > 1:
            names = ", ".join(sorted(type(value).__qualname__ for value in found))
            raise BadConfig(
                f"several objects are a {kind.__qualname__} ({names}): name one of them"
            )
        return found[0] if found else None

    def __getitem__(self, kind: type[T]) -> T:
        """As `get`. NotFound if there is none."""
        found = self.get(kind)
        if found is None:
            names = ", ".join(sorted(each.__qualname__ for each in self._by_type)) or "nothing"
            raise NotFound(
                f"no start hook of this worker gives a {kind.__qualname__} (they give {names}): return one "
                "from a function with @queue.on_start"
            )
        return found


class StartedHooks:
    """The hooks of workers that run, and their state."""

    def __init__(self, stops: tuple[StopHook, ...] = ()) -> None:
        self.state = WorkerState()
        self._stops = stops
        self._open: list[Generator[Any] | AsyncGenerator[Any, None]] = []

    async def begin(self, hook: StartHook) -> None:
        """Runs a start hook, and keeps what it gives."""
        if inspect.isasyncgenfunction(hook) or inspect.isgeneratorfunction(hook):
            made = hook()
            value = await _next(made)
            if value is END:
                raise BadConfig(f"start hook {shown(hook)} does not yield: yield its object once")
            self._open.append(made)
        else:
            value = await _called(hook)
        if value is not None:
            self.state.put(value)

    async def stop(self) -> None:
        """Runs the stop hooks, then what generators have after their `yield`."""
        for hook in reversed(self._stops):
            await _quietly(hook, _called(hook, self.state))
        for made in reversed(self._open):
            await _quietly(made, _finish(made))
        self._stops, self._open = (), []


class WorkerHooks:
    """The hooks of one queue."""

    def __init__(self) -> None:
        self._starts: tuple[StartHook, ...] = ()
        self._stops: tuple[StopHook, ...] = ()

    def add_start(self, hook: StartHook) -> None:
        _check_takes("a start hook", hook, "no argument")
        self._starts = (*self._starts, hook)

    def add_stop(self, hook: StopHook) -> None:
        _check_takes("a stop hook", hook, "one argument, the state", WorkerState)
        self._stops = (*self._stops, hook)

    async def start(self) -> StartedHooks:
        """Runs the start hooks. If one fails, those before it are stopped, and its error is raised."""
        started = StartedHooks(self._stops)
        try:
            for hook in self._starts:
                await started.begin(hook)
        except BaseException:
            await started.stop()
            raise
        return started


def _check_takes(field: str, hook: Callable[..., object], what: str, *given: object) -> None:
    """BadConfig for a hook that cannot be called with these arguments."""
    check_callable(field, hook)
    try:
        signature_of(hook).bind(*given)
    except TypeError as error:
        raise BadConfig(f"{field} is called with {what}, but {shown(hook)}: {error}") from None
    except ValueError:
        return  # Written in C: its parameters are not known.


async def _quietly(what: object, end: Awaitable[object]) -> None:
    limit = asyncio.timeout(STOP_SECONDS)
    try:
        async with limit:
            await end
    except (Exception, asyncio.CancelledError, SystemExit):
        if (current := asyncio.current_task()) is not None and current.cancelling():
            raise  # The stop itself was cancelled.
        how = f"not ended within {STOP_SECONDS:g} s" if limit.expired() else "failed"
        log.exception("a hook at the stop of the workers has %s: %s", how, shown(what))


def _in_thread(function: Callable[..., object], *given: object) -> Awaitable[object]:
    """Calls a plain hook in a daemon thread: neither a stop nor the exit of the process waits for one that
    does not return."""
    call = functools.partial(contextvars.copy_context().run, function, *given)
    host = ThreadHost()
    future = host.submit(call)
    future.add_done_callback(lambda _: host.close())
    return future


async def _called(hook: Callable[..., object], *given: object) -> object:
    if is_async(hook):
        return await answer_of(hook(*given))
    return await answer_of(await _in_thread(hook, *given))


async def _next(made: object) -> object:
    """What the generator yields next. END if it has ended."""
    if isinstance(made, AsyncGenerator):
        return await anext(made, END)
    assert isinstance(made, Generator)
    return await _in_thread(next, made, END)


async def _finish(made: object) -> None:
    if await _next(made) is not END:
        raise BadConfig("it yields more than once: a start hook yields its object once")
