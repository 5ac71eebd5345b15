"""The worker pool. Each worker runs one claimed task at a time.

Promises: the pool has between min and max workers; it grows when tasks wait, and only idle workers leave; a
cancelled handler frees its worker; a worker that dies is replaced, and its task fails like any other. Never:
claims or writes; outcomes go to the completer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from holdfast.clock import Clock
from holdfast.core import capacity, failure as failures
from holdfast.core.command import Fail, Instruction, Release, RunnerCommand, Snooze
from holdfast.core.task import FailureKind, RunId, Task, timeout_of
from holdfast.engine import outcome_log
from holdfast.engine.context import Context, Services
from holdfast.engine.deadlines import Deadlines
from holdfast.engine.execute import Executor, timed_out
from holdfast.engine.handlers import IN_THREAD, Handlers
from holdfast.engine.owned_run import LOST, RELEASED, TIMEOUT, OwnedRun
from holdfast.engine.supervisor import Supervisor
from holdfast.errors import LeaseLost

Deliver = Callable[[Task, Instruction], bool]
Room = Callable[[], Awaitable[None]]
STALL_SECONDS: Final = 0.5
"""If no worker was free for this long, waiting tasks are given back to other nodes."""
SWIFT_SECONDS: Final = 0.0001
"""Handlers with a shorter mean duration do not wait for I/O."""
RUNS_MAX: Final = 32
"""Tasks that a worker runs before it yields to the event loop."""
APART_SECONDS: Final = 1.0
"""The interval between starts of tasks that may kill this process."""


class WorkerPool:
    """The workers of one process."""

    def __init__(
        self,
        *,
        clock: Clock,
        handlers: Handlers,
        executor: Executor,
        services: Services,
        deliver: Deliver,
        room: Room,
        supervisor: Supervisor,
        on_free: Callable[[], None],
        minimum: int,
        maximum: int,
        default_timeout: float | None,
    ) -> None:
        self._clock = clock
        self._handlers = handlers
        self._executor = executor
        self._services = services
        self._deliver = deliver
        self._room = room
        self._supervisor = supervisor
        self._on_free = on_free
        self._configured = capacity.WorkerBounds(minimum, maximum)
        self._bounds = self._configured
        self._scaled_by = 0
        self._surplus = 0
        """Workers that leave as soon as they are idle."""
        self._default_timeout = default_timeout
        self.runs: dict[RunId, OwnedRun] = {}
        self._buffer: deque[OwnedRun] = deque()
        self._idle: deque[asyncio.Future[bool]] = deque()
        self._woken = 0
        """Workers that were woken and have not taken a task yet."""
        self._numbers = 0
        self.workers = 0
        self.busy = 0
        self.mean_seconds = 0.0
        self._busy_at = clock.monotonic()
        self._freed_at = float("-inf")
        self._owes_signal = False
        """A worker became free while tasks waited in the buffer. `on_free` is called once they are taken."""
        self._deaf: list[OwnedRun] = []
        self._quiet = asyncio.Event()
        self._hurried = False
        self.deadlines: Deadlines[OwnedRun] = Deadlines(
            lambda owned: self._cancel(owned, TIMEOUT), clock.monotonic
        )

    # -- capacity --------------------------------------------------------------------------------

    def start(self) -> None:
        self._scale_to(self.minimum)

    @property
    def minimum(self) -> int:
        return self._bounds.minimum

    @property
    def maximum(self) -> int:
        return self._bounds.maximum

    @property
    def is_flowing(self) -> bool:
        """Whether a worker was free a moment ago, so that a waiting task starts soon."""
        return self._clock.monotonic() - self._freed_at < STALL_SECONDS

    def room(self) -> int:
        """How many more tasks to claim: for workers that are free or may be started, and some prefetched ones
        while tasks are short."""
        ahead = capacity.prefetch(self.maximum, self.mean_seconds) if self.is_flowing else 0
        return self.maximum - self.busy - len(self._buffer) + ahead

    def rescale(self) -> None:
        """Adds workers while tasks wait, and removes them after a quiet time."""
        target = capacity.target_workers(
            current=self.workers - self._surplus,
            busy=self.busy,
            waiting=len(self._buffer),
            minimum=self.minimum,
            maximum=self.maximum,
            quiet_seconds=self._clock.monotonic() - self._busy_at,
        )
        self._scale_to(target)

    def resize(self, by: int) -> int:
        """Adds or removes workers on behalf of an operator. Returns the new number."""
        scaled = capacity.scaled(
            current=self.workers - self._surplus,
            by=by,
            so_far=self._scaled_by,
            configured=self._configured,
        )
        self._scaled_by, self._bounds = scaled.so_far, scaled.bounds
        self._scale_to(scaled.target)
        if by > 0:
            self._signal_free()
        return scaled.target

    def _scale_to(self, target: int) -> None:
        while self.workers < target:
            self._numbers += 1
            self.workers += 1
            self._supervisor.start(f"worker-{self._numbers}", self._work)
        while self.workers > target and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                self.workers -= 1
                waiter.set_result(False)
        self._surplus = max(0, self.workers - target)

    # -- work ------------------------------------------------------------------------------------

    def give(self, tasks: list[Task]) -> None:
        """Takes claimed tasks, in order. An empty list does not count as activity."""
        if not tasks:
            return
        if any(task.fence > 1 for task in tasks):  # Otherwise no task has run before.
            if any(task.deaths for task in tasks):
                tasks = self._set_apart(tasks)
            self._lose_older({task.id for task in tasks})
        for task in tasks:
            owned = OwnedRun(task)
            self.runs[owned.run] = owned
            self._buffer.append(owned)
        self._busy_at = self._clock.monotonic()
        self._hand_out()
        if len(self._buffer) > self._woken and self.workers < self.maximum:
            self.rescale()

    def _lose_older(self, claimed_again: set[str]) -> None:
        """Cancels the earlier runs of tasks that were claimed again. No heartbeat is needed to know."""
        older = {run for run in self.runs if run.task_id in claimed_again}
        self.lose({run for run in older if not self.runs[run].has_ended})

    def _set_apart(self, tasks: list[Task]) -> list[Task]:
        """The tasks to start now. Tasks on their last chance start one at a time, so that a task that
        kills its process does not make the others dead letters. Those others are snoozed, without
        spending an attempt."""
        last = [task for task in tasks if on_last_chance(task)]
        before = sum(on_last_chance(owned.task) for owned in self.runs.values())
        if before + len(last) <= 1:
            return tasks
        for n, task in enumerate(last, start=min(1, before)):
            self.runs[task.run] = OwnedRun(task)
            snooze = Snooze(n * APART_SECONDS, "its workers have died: it runs apart from others")
            self._deliver(task, Instruction(task.id, snooze, fence=task.fence))
        return [task for task in tasks if not on_last_chance(task)]

    def _hand_out(self) -> None:
        """Wakes workers for waiting tasks. While handlers never wait, one worker is enough: it takes one task
        after the other, and wakes the next worker in case a handler does wait."""
        missing = (1 if self.mean_seconds < SWIFT_SECONDS else len(self._buffer)) - self._woken
        while missing > 0 and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                missing -= 1
                self._woken += 1
                waiter.set_result(True)

    async def _next(self) -> OwnedRun | None:
        """Waits for the next task. None when this worker must leave."""
        while not self._buffer:
            if self._surplus:
                self._surplus -= 1
                self.workers -= 1
                return None
            waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            try:
                if not await waiter:
                    return None
            finally:
                if waiter.done() and not waiter.cancelled() and waiter.result():
                    self._woken -= 1
        return self._take()

    def _take(self) -> OwnedRun:
        self.busy += 1
        owned = self._buffer.popleft()
        if self._owes_signal and not self._buffer:
            self._signal_free()
        if self._idle and len(self._buffer) > self._woken:
            self._hand_out()
        return owned

    def _signal_free(self) -> None:
        self._owes_signal = False
        self._on_free()

    async def _work(self) -> None:
        """The loop of a worker. The supervisor replaces a worker that dies."""
        runs = 0
        me = asyncio.current_task()
        while (owned := self._take() if self._buffer else await self._next()) is not None:
            owned.started = True
            owned.worker = me
            try:
                command = None if owned.cancelled is not None else await self._run(owned)
            finally:
                self.busy -= 1
                owned.worker = None
                self._busy_at = self._freed_at = self._clock.monotonic()
            if command is not None:
                task = owned.current
                if not self._deliver(task, Instruction(task.id, command, fence=task.fence)):
                    await self._room()
            elif owned.cancelled == LOST:
                self.runs.pop(owned.run, None)
            if self._buffer:
                self._owes_signal = True
            else:
                self._signal_free()
            if self.busy <= len(self._deaf):
                self._check_quiet()
            runs += 1
            if runs % RUNS_MAX == 0:
                await asyncio.sleep(0)

    async def _run(self, owned: OwnedRun) -> RunnerCommand | None:
        """Runs the handler. Returns the outcome, or None when the process does not own the run any more."""
        task = owned.task
        handler = self._handlers.get(task.type)
        if handler is None:
            message = f"no handler for '{task.type}' in this process"
            return Fail(failures.plain(task.type, FailureKind.ERROR, message))
        if handler.isolation is IN_THREAD and not self._executor.has_threads:
            return Release("too many threads of this process do not return")
        owned.context = Context(task, self._services)
        timeout = timeout_of(task.options, self._default_timeout)
        if timeout is not None:
            self.deadlines.add(owned, timeout)
        started_at = self._clock.monotonic()
        command: RunnerCommand | None
        try:
            command = await self._executor.run(handler, owned.context, started_at)
        except LeaseLost:
            command = None
            owned.cancelled = owned.cancelled or LOST
        except asyncio.CancelledError as error:
            if owned.cancelled is None and _is_cancelled():
                raise
            # The handler awaited a task that it had cancelled itself: a failure of the handler.
            command = Fail(failures.from_exception(task.type, error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # An exception of a handler must not end its worker.
            command = Fail(failures.from_exception(task.type, error))
        finally:
            if timeout is not None:
                self.deadlines.remove(owned)
        if owned.cancelled is not None:
            # The run counts as cancelled, whatever the handler returned or raised.
            owned.go_on()
            if owned.is_given_up:
                return None
            return timed_out(task, timeout) if owned.cancelled == TIMEOUT and timeout else None
        self.mean_seconds = capacity.smoothed(
            self.mean_seconds, self._clock.monotonic() - started_at
        )
        return command

    # -- taking away -----------------------------------------------------------------------------

    def lose(self, runs: set[RunId]) -> None:
        """Cancels runs whose leases were lost, in the order of their claims."""
        for owned in [owned for run, owned in self.runs.items() if run in runs]:
            self._cancel(owned, LOST)
            if not owned.started:
                del self.runs[owned.run]

    def _cancel(self, owned: OwnedRun, why: str) -> None:
        owned.cancel(why, self._clock.monotonic())

    def cancel_again(self) -> None:
        """Cancels handlers again that go on after their cancellation. After `GIVE_UP_SECONDS` a handler
        is given up: it keeps its worker, but not its lease."""
        now = self._clock.monotonic()
        for owned in [owned for owned in self.runs.values() if owned.cancelled and owned.worker]:
            if owned.is_deaf(now):
                if not owned.is_given_up:
                    self._give_up(owned, now - owned.cancelled_at)
            elif owned.may_cancel_again(now):
                owned.cancel_worker()

    def _give_up(self, owned: OwnedRun, seconds: float) -> None:
        owned.give_up()
        self._deaf.append(owned)
        outcome_log.stuck(owned.task, seconds, owned.stack())
        timeout = timeout_of(owned.task.options, self._default_timeout)
        if owned.cancelled == TIMEOUT and timeout:
            failed = timed_out(owned.task, timeout)
            self._deliver(owned.current, Instruction(owned.task.id, failed, fence=owned.task.fence))
        else:
            self.runs.pop(owned.run, None)
        self._check_quiet()

    @property
    def deaf(self) -> int:
        """Handlers that were given up and still keep a worker."""
        self._deaf = [owned for owned in self._deaf if owned.worker is not None]
        return len(self._deaf)

    def named(self, worker: asyncio.Task[Any] | None) -> str:
        """The task of a worker, in words. Another thread may call this while the event loop is blocked."""
        for owned in list(self.runs.values()):
            if owned.worker is not None and owned.worker is worker:
                return f"the handler of task {owned.task.id} ({owned.task.type})"
        return "something that is not a handler of this queue"

    def take_stalled(self) -> list[Task]:
        """Removes and returns the tasks that wait while no worker becomes free."""
        return [] if self.is_flowing or self.busy < self.maximum else self.take_unstarted()

    def take_unstarted(self) -> list[Task]:
        """Removes and returns the tasks that were claimed but not started."""
        waiting = [owned for owned in self._buffer if not owned.cancelled]
        self._buffer.clear()
        return [owned.task for owned in waiting]

    async def wait_quiet(self, seconds: float) -> bool:
        """Waits until no handler runs, except those that were given up, at most this long."""
        until = self._clock.monotonic() + seconds
        while self.busy > self.deaf:
            if self._hurried:
                self._hurried = False
                return False
            self._quiet.clear()
            if not await self._clock.wait(self._quiet, until - self._clock.monotonic()):
                return False
        return True

    def _check_quiet(self) -> None:
        if self.busy <= self.deaf:
            self._quiet.set()

    def hurry(self) -> None:
        """Ends `wait_quiet` at once."""
        self._hurried = True
        self._quiet.set()

    def abandon(self) -> list[Task]:
        """Cancels every running handler. Returns the tasks, which the caller gives back."""
        running = [owned for owned in self.runs.values() if owned.worker is not None]
        for owned in running:
            self._cancel(owned, RELEASED)
        return [owned.current for owned in running]


def on_last_chance(task: Task) -> bool:
    """Whether the next death of its runner makes the task a dead letter."""
    return task.deaths > 0 and task.deaths >= task.options.max_deaths - 1


def _is_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
