"""An asyncio event loop whose time and order come from a seed.

Promises: the same seed gives the same run, step by step, in every process; time moves only when nobody has
anything to do; each node's callbacks run in the order in which they were registered, as asyncio promises,
and which node runs next is drawn. When nothing can ever happen again, it says so and does not hang.
Never: threads, sockets, the machine's clock.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import heapq
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar, TypeVarTuple

from holdfast.sim.draw import Draw

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
NODE: Final[contextvars.ContextVar[str]] = contextvars.ContextVar("holdfast_sim_node")
"""Which node the running code belongs to; tasks hand it down to those they start."""
OUTSIDE: Final = ""
"""The node of what belongs to none: the world itself."""


class Stuck(Exception):
    """Nothing is ready and no timer is set, yet the run is not over."""


class SimHandle(asyncio.TimerHandle):
    """A callback that waits for its turn or its time; asyncio's own keeps more than is needed here."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = _nothing
        self._args = ()


class SimLoop(asyncio.AbstractEventLoop):
    """See the module. Only what asyncio's tasks, futures, locks and timeouts need is there."""

    def __init__(self, draw: Draw, *, start: float = 0.0) -> None:
        self._draw = draw
        self._time = start
        self._ready: dict[str, deque[SimHandle]] = {}
        self._timers: list[tuple[float, int, str, SimHandle]] = []
        self._order = 0
        self._running = False
        self._stopping = False
        self._closed = False
        self._frozen: dict[str, float] = {}
        self._dead: set[str] = set()
        self._tasks: dict[str, weakref.WeakSet[asyncio.Task[Any]]] = {}
        self._buried: list[asyncio.Task[Any]] = []
        self.steps = 0
        self.failures: list[dict[str, Any]] = []
        """What nobody caught: a run with any has failed."""

    # -- time --------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._time

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if context is None:
            context = contextvars.copy_context()
        handle = SimHandle(self._time, callback, args, context)
        node = context.get(NODE, OUTSIDE)
        if node not in self._dead:
            queue = self._ready.get(node)
            if queue is None:
                self._ready[node] = queue = deque()
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
        when = self._time + delay if delay > 0.0 else self._time
        return self.call_at(when, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        handle = SimHandle(when, callback, args, context)
        node = context.get(NODE, OUTSIDE)
        if node not in self._dead:
            self._order += 1
            heapq.heappush(self._timers, (when, self._order, node, handle))
        return handle

    # -- nodes -------------------------------------------------------------------------------------

    def forget(self, node: str) -> None:
        """A crash: whatever the node would have done next is not done, ever. No `finally` runs: its
        tasks are kept as they are until the run is over."""
        self._dead.add(node)
        self._buried += list(self._tasks.pop(node, ()))
        self._ready.pop(node, None)
        self._frozen.pop(node, None)
        self._timers = [timer for timer in self._timers if timer[2] != node]
        heapq.heapify(self._timers)

    def freeze(self, node: str, seconds: float) -> None:
        """The node does nothing for so long (a stopped process); then it goes on, late."""
        self._frozen[node] = self._time + seconds
        self.call_later(seconds, self._thaw, node, context=contextvars.Context())

    def tasks_of(self, node: str) -> int:
        """How many coroutines of a node are under way."""
        return len(self._tasks.get(node, ()))

    def is_frozen(self, node: str) -> bool:
        return node in self._frozen

    def suspend(self, node: str, seconds: float) -> None:
        """The machine of the node sleeps for so long: its timers do not count that time."""
        self._shift(node, seconds)
        self.freeze(node, seconds)

    def wake(self, node: str) -> float:
        """The machine of a node that sleeps wakes now; how many seconds it would have slept on."""
        left = self._frozen.pop(node, self._time) - self._time
        self._shift(node, -left)
        return left

    def _shift(self, node: str, seconds: float) -> None:
        self._timers = [
            (when + seconds if name == node else when, order, name, handle)
            for when, order, name, handle in self._timers
        ]
        heapq.heapify(self._timers)

    def thaw_all(self) -> None:
        """Everybody goes on, and notices the timers that it has slept through."""
        frozen, now = self._frozen, self._time
        self._timers = [
            (now if frozen.get(node) == when else when, order, node, handle)
            for when, order, node, handle in self._timers
        ]
        heapq.heapify(self._timers)
        frozen.clear()

    def _thaw(self, node: str) -> None:
        if self._frozen.get(node, float("inf")) <= self._time:
            del self._frozen[node]

    # -- running -----------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        task: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(lambda _: self.stop())
        self.run_forever()
        if not task.done():
            raise Stuck(f"at {self._time:.3f} s nothing is left to happen")
        return task.result()

    def run_forever(self) -> None:
        self._running, self._stopping = True, False
        asyncio.events._set_running_loop(self)
        try:
            while not self._stopping and self._turn():
                pass
        finally:
            self._running = False
            asyncio.events._set_running_loop(None)

    def _turn(self) -> bool:
        """One callback of one node, or a jump to the next timer; False when there is neither."""
        ready = self._ready
        nodes = [node for node in ready if node not in self._frozen] if self._frozen else [*ready]
        if not nodes:
            return self._jump()
        node = nodes[0] if len(nodes) == 1 else nodes[self._draw.below(len(nodes))]
        queue = ready[node]
        handle = queue.popleft()
        if not queue:
            del ready[node]
        if not handle._cancelled:
            self._step(handle)
        return True

    def _jump(self) -> bool:
        while self._timers:
            when, _, node, handle = heapq.heappop(self._timers)
            if handle._cancelled:
                continue
            if node in self._frozen and self._frozen[node] > when:
                # A stopped process notices its timers when it goes on.
                self._order += 1
                heapq.heappush(self._timers, (self._frozen[node], self._order, node, handle))
                continue
            self._time = max(self._time, when)
            self._step(handle)
            return True
        return False

    def _step(self, handle: SimHandle) -> None:
        self.steps += 1
        try:
            handle._context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.failures.append({"message": "a callback failed", "exception": error})

    def stop(self) -> None:
        self._stopping = True

    # -- what asyncio asks of a loop ---------------------------------------------------------------

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
        """Nothing runs any more; what is left of dead nodes is let go without a word."""
        self._closed = True
        for node in [*self._tasks, *self._ready]:
            self._dead.add(node)
        for tasks in self._tasks.values():
            self._buried += list(tasks)
        self._ready.clear()
        self._timers.clear()
        for task in self._buried:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        with _silence(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # One by one, from the outside in: the collector would take them apart in an order of its
            # own, which the interpreter does not always survive.
            for task in self._buried:
                with suppress(BaseException):
                    task.get_coro().close()
            self._buried.clear()
            self._tasks.clear()
            gc.collect()

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
        """Left in the heap; skipped when its time comes."""


def _nothing() -> None:
    """What is left of a callback that was cancelled."""


@contextmanager
def _silence() -> Iterator[None]:
    """Coroutines that are let go complain about awaits in their `finally`."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = before


def _node_of(context: contextvars.Context | None) -> str:
    return NODE.get(OUTSIDE) if context is None else context.get(NODE, OUTSIDE)
