"""An asyncio event loop whose time and order are determined by a seed.

Promises: the same seed gives the same run, step by step, in every process; time advances only when no
callback is ready; the callbacks of a node run in the order of registration, as asyncio promises, and the
next node is drawn. Raises `Stuck` instead of hanging when no event can occur any more. Never: uses
threads, sockets or the machine's clock.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import warnings
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeVar, TypeVarTuple

import msgspec

from holdfast.sim.draw import Draw
from holdfast.sim.leavings import silence, unwind

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
NODE: Final[contextvars.ContextVar[str]] = contextvars.ContextVar("holdfast_sim_node")
"""The node that the running code belongs to; tasks inherit it."""
OUTSIDE: Final = ""
"""The name used for code that belongs to no node."""


class Stuck(Exception):
    """No callback is ready and no timer is set, but the run has not ended."""


class SimHandle(msgspec.Struct):
    """A scheduled callback, with the interface of `asyncio.TimerHandle`. Every step of a run makes one, and a
    struct is made in a third of the time of asyncio's handle."""

    due_at: float
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: contextvars.Context
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback = _nothing
        self.args = ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.due_at


_made: Final[Callable[..., Any]] = SimHandle
"""Makes a handle. Callers know it as asyncio's."""


class SimLoop(asyncio.AbstractEventLoop):
    """Implements what asyncio's tasks, futures, locks and timeouts need."""

    def __init__(self, draw: Draw, *, start: float = 0.0) -> None:
        self._draw = draw
        self.at = start
        """The virtual time. Only the loop changes it."""
        self._ready: dict[str, deque[Any]] = {}
        self._spare: list[deque[Any]] = []
        """Empty queues. Most steps would make one otherwise."""
        self._timers: list[tuple[float, int, str, Any]] = []
        self._order = 0
        self._no_node = contextvars.Context()
        self._running = False
        self._stopping = False
        self._closed = False
        self._frozen: dict[str, float] = {}
        self.frozen: Mapping[str, float] = self._frozen
        """The stopped nodes, and until when."""
        self._dead: set[str] = set()
        self._tasks: dict[str, weakref.WeakSet[asyncio.Task[Any]]] = {}
        self._dead_tasks: list[asyncio.Task[Any]] = []
        self._iterators: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()
        self.steps = 0
        self._active: set[str] = set()
        self.failures: list[dict[str, Any]] = []
        """Uncaught exceptions; a run with any has failed."""

    # -- time --------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.at

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if context is None:
            context = contextvars.copy_context()
        handle: asyncio.Handle = _made(self.at, callback, args, context)
        node = context.get(NODE, OUTSIDE)
        if node not in self._dead:
            queue = self._ready.get(node)
            if queue is None:
                self._ready[node] = queue = self._spare.pop() if self._spare else deque()
            queue.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        when = self.at + delay if delay > 0.0 else self.at
        handle: asyncio.TimerHandle = _made(when, callback, args, context)
        node = context.get(NODE, OUTSIDE)
        if node not in self._dead:
            self._order += 1
            heappush(self._timers, (when, self._order, node, handle))
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        handle: asyncio.TimerHandle = _made(when, callback, args, context)
        node = context.get(NODE, OUTSIDE)
        if node not in self._dead:
            self._order += 1
            heappush(self._timers, (when, self._order, node, handle))
        return handle

    def post(self, delay: float, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """`call_later` for what belongs to no node and is not cancelled: a message on its way."""
        when = self.at + delay
        self._order += 1
        handle = SimHandle(when, callback, args, self._no_node)
        heappush(self._timers, (when, self._order, OUTSIDE, handle))

    # -- nodes -------------------------------------------------------------------------------------

    def forget(self, node: str) -> None:
        """A crash: no code of the node runs any more, not even `finally`. Its tasks are kept as they are
        until the run ends."""
        self._dead.add(node)
        self._dead_tasks += list(self._tasks.pop(node, ()))
        self._ready.pop(node, None)
        self._frozen.pop(node, None)
        self._timers = [timer for timer in self._timers if timer[2] != node]
        heapify(self._timers)

    def freeze(self, node: str, seconds: float) -> None:
        """Stops the node for `seconds`, like a stopped process. Its timers then fire late."""
        self._frozen[node] = self.at + seconds
        self.call_later(seconds, self._thaw, node, context=contextvars.Context())

    def tasks_of(self, node: str) -> int:
        """Number of asyncio tasks of a node."""
        return len(self._tasks.get(node, ()))

    def take_active(self) -> set[str]:
        """The nodes that have run code since the last call."""
        active, self._active = self._active, set()
        return active

    def is_frozen(self, node: str) -> bool:
        return node in self._frozen

    def suspend(self, node: str, seconds: float) -> None:
        """Suspends the machine of the node for `seconds`: its timers do not count that time."""
        self._shift(node, seconds)
        self.freeze(node, seconds)

    def wake(self, node: str) -> float:
        """Ends a suspend and returns the seconds that were left of it."""
        remaining = self._frozen.pop(node, self.at) - self.at
        self._shift(node, -remaining)
        return remaining

    def _shift(self, node: str, seconds: float) -> None:
        self._timers = [
            (when + seconds if name == node else when, order, name, handle)
            for when, order, name, handle in self._timers
        ]
        heapify(self._timers)

    def thaw_all(self) -> None:
        """Resumes all nodes; timers that are overdue fire now."""
        frozen, now = self._frozen, self.at
        self._timers = [
            (now if frozen.get(node) == when else when, order, node, handle)
            for when, order, node, handle in self._timers
        ]
        heapify(self._timers)
        frozen.clear()

    def _thaw(self, node: str) -> None:
        if self._frozen.get(node, float("inf")) <= self.at:
            del self._frozen[node]

    # -- running -----------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        task: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(lambda _: self.stop())
        self.run_forever()
        if not task.done():
            raise Stuck(f"at {self.at:.3f} s nothing is left to happen")
        return task.result()

    def run_forever(self) -> None:
        self._running, self._stopping = True, False
        asyncio.events._set_running_loop(self)
        before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._iterators.add)
        try:
            self._run()
        finally:
            self._running = False
            sys.set_asyncgen_hooks(*before)
            asyncio.events._set_running_loop(None)

    def _run(self) -> None:
        """Runs one callback of one node after another, or the next timer when none is ready. Ends when the
        loop is stopped, or when there is neither."""
        ready, frozen = self._ready, self._frozen
        while not self._stopping:
            handle: SimHandle | None
            nodes = [node for node in ready if node not in frozen] if frozen else ready
            if not nodes:
                timers = self._timers
                if timers and not frozen and not timers[0][3].is_cancelled:
                    # Most steps of a quiet cluster: what `_next_timer` does without a search.
                    when, _, node, handle = heappop(timers)
                    if when > self.at:
                        self.at = when
                    self._active.add(node)
                elif (handle := self._next_timer()) is None:
                    return
            else:
                if len(nodes) == 1:
                    (node,) = nodes
                else:
                    node = [*nodes][self._draw.below(len(nodes))]
                queue = ready[node]
                handle = queue.popleft()
                if not queue:
                    del ready[node]
                    self._spare.append(queue)
                if handle.is_cancelled:
                    continue
                self._active.add(node)
            self.steps += 1
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.failures.append({"message": "a callback failed", "exception": error})

    def _next_timer(self) -> SimHandle | None:
        """Advances to the next timer and returns it. None if there is none."""
        timers, frozen = self._timers, self._frozen
        while timers:
            when, _, node, handle = heappop(timers)
            if handle.is_cancelled:
                continue
            if frozen and node in frozen and frozen[node] > when:
                # The timers of a stopped process fire when it continues.
                self._order += 1
                heappush(timers, (frozen[node], self._order, node, handle))
                continue
            if when > self.at:
                self.at = when
            self._active.add(node)
            due: SimHandle = handle
            return due
        return None

    def stop(self) -> None:
        self._stopping = True

    # -- the interface of asyncio loops --------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=str(name) if name else "task", context=context)
        self._tasks.setdefault(_node_of(context), weakref.WeakSet()).add(task)
        return task

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Discards all remaining tasks without warnings."""
        self._closed = True
        for node in [*self._tasks, *self._ready]:
            self._dead.add(node)
        for tasks in self._tasks.values():
            self._dead_tasks += list(tasks)
        self._ready.clear()
        self._timers.clear()
        with silence(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A `finally` that gathers tasks would make another loop without this one.
            asyncio.set_event_loop(self)
            try:
                self._unwind_all()
            finally:
                asyncio.set_event_loop(None)
            gc.collect()

    def _unwind_all(self) -> None:
        """Closes coroutines one by one, outermost first: the garbage collector would use another order, which
        can crash the interpreter. A method, so that no local variable keeps the last of them."""
        for task in self._dead_tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        for task in self._dead_tasks:
            unwind(task.get_coro())
        for iterator in list(self._iterators):
            closing = iterator.aclose()
            with suppress(BaseException):
                closing.send(None)
            unwind(closing)
        self._dead_tasks.clear()
        self._tasks.clear()

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        return

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    async def shutdown_asyncgens(self) -> None:
        return

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """The handle stays in the heap and is skipped when it is due."""


def _nothing() -> None:
    """Replaces a cancelled callback."""


def _node_of(context: contextvars.Context | None) -> str:
    return NODE.get(OUTSIDE) if context is None else context.get(NODE, OUTSIDE)
