"""The worker pool. Each worker runs one claimed task at a time.

Promises: the pool has between min and max workers; it grows when tasks wait, and only idle workers leave; a
cancelled handler frees its worker; a worker that dies is replaced, and its task fails like any other. Never:
claims or writes; outcomes go to the completer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.clock import Clock
from holdfast.core import capacity
from holdfast.core.claiming import Load
from holdfast.core.command import Instruction, Release
from holdfast.core.last_chance import to_snooze
from holdfast.core.task import Task
from holdfast.engine.owned_run import CUT_OFF, CUT_OFF_REASON, LOST, OwnedRun
from holdfast.engine.owned_runs import Deliver, OwnedRuns
from holdfast.engine.pace import Pace
from holdfast.engine.runner import TaskRunner
from holdfast.engine.supervisor import Supervisor

Room = Callable[[], Awaitable[None]]
STALL_SECONDS: Final = 0.5
"""If no worker was free for this long, waiting tasks are given back to other nodes."""
SWIFT_SECONDS: Final = 0.0001
"""Handlers with a shorter mean duration do not wait for I/O."""
RUNS_MAX: Final = 32
"""Tasks that a worker runs before it yields to the event loop."""


class WorkerPool:
    """The workers of one process."""

    def __init__(
        self,
        *,
        clock: Clock,
        runner: TaskRunner,
        runs: OwnedRuns,
        deliver: Deliver,
        room: Room,
        supervisor: Supervisor,
        on_free: Callable[[], None],
        minimum: int,
        maximum: int,
    ) -> None:
        self._clock = clock
        self._runner = runner
        self._runs = runs
        self._deliver = deliver
        self._room = room
        self._supervisor = supervisor
        self._on_free = on_free
        self._configured = capacity.WorkerBounds(minimum, maximum)
        self._bounds = self._configured
        self._scaled_by = 0
        self._surplus = 0
        """Workers that leave as soon as they are idle."""
        self._buffer: deque[OwnedRun] = deque()
        self._idle: deque[asyncio.Future[bool]] = deque()
        self._woken = 0
        """Workers that were woken and have not taken a task yet."""
        self._numbers = 0
        self.workers = 0
        self.busy = 0
        self._pace = Pace()
        self._payload_chars: float | None = None
        """The mean size of a payload of the last claim."""
        self._busy_at = clock.monotonic()
        self._freed_at = float("-inf")
        self._owes_signal = False
        """A worker became free while tasks waited in the buffer. `on_free` is called once they are taken."""
        self._hurried = False
        self._stirred = asyncio.Event()
        """Set when the pool may no longer be at rest."""

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

    @property
    def is_empty(self) -> bool:
        """Whether no task runs and none waits."""
        return not (self.busy or self._buffer)

    def load(self) -> Load:
        """How much work the pool has and can take: for workers that are free or may be started, and some
        prefetched tasks while tasks are short."""
        maximum, mean_seconds = self._bounds.maximum, self._runner.mean_seconds
        is_flowing, ahead = self.is_flowing, 0
        if is_flowing:
            ahead = capacity.prefetch(
                maximum,
                mean_seconds,
                ends_per_second=self._pace.per_second(self._clock.monotonic()),
                payload_chars=self._payload_chars,
            )
        waiting = len(self._buffer)
        return Load(
            free=maximum - self.busy - waiting + ahead,
            waiting=waiting,
            maximum=maximum,
            largest=capacity.claim_max(self._payload_chars),
            is_flowing=is_flowing,
            mean_seconds=mean_seconds,
        )

    async def end_of_rest(self) -> None:
        """Waits until there are tasks, or more workers than the least number."""
        if self.is_empty and self.workers - self._surplus <= self.minimum:
            self._stirred.clear()
            await self._stirred.wait()

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
        self._stirred.set()
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
        self._stirred.set()
        if any(task.fence > 1 for task in tasks):  # Otherwise no task has run before.
            if any(task.deaths for task in tasks):
                tasks = self._start_apart(tasks)
            self._runs.lose_older({task.id for task in tasks})
        self._busy_at = now = self._clock.monotonic()
        if self.is_empty:
            self._pace.begin(now)
        runs = self._runs.by_id
        for task in tasks:
            owned = OwnedRun(task)
            runs[owned.run] = owned
            self._buffer.append(owned)
        self._payload_chars = sum([len(task.payload_json) for task in tasks]) / max(1, len(tasks))
        self._hand_out()
        if len(self._buffer) > self._woken and self.workers < self.maximum:
            self.rescale()

    def _start_apart(self, tasks: list[Task]) -> list[Task]:
        """The tasks to start now. The others are snoozed: they may kill this process."""
        snoozed = to_snooze(tasks, [owned.task for owned in self._runs.by_id.values()])
        for task, snooze in snoozed:
            self._runs.by_id[task.run] = OwnedRun(task)
            self._deliver(task, Instruction(task.id, snooze, fence=task.fence))
        apart = {task.run for task, _ in snoozed}
        return [task for task in tasks if task.run not in apart]

    def _hand_out(self) -> None:
        """Wakes workers for waiting tasks. While handlers never wait, one worker is enough: it takes one task
        after the other, and wakes the next worker in case a handler does wait."""
        missing = (1 if self._is_swift else len(self._buffer)) - self._woken
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
        if self._idle and len(self._buffer) > self._woken and not (self._woken and self._is_swift):
            self._hand_out()
        return owned

    @property
    def _is_swift(self) -> bool:
        """Whether one woken worker is enough, because handlers never wait."""
        return self._runner.mean_seconds < SWIFT_SECONDS

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
                command = None if owned.cancelled is not None else await self._runner.run(owned)
            finally:
                self.busy -= 1
                owned.worker = None
                self._busy_at = self._freed_at = now = self._clock.monotonic()
                self._pace.ends += 1
                if not (self.busy or self._buffer):
                    self._pace.end(now)
            if owned.cancelled == CUT_OFF and not owned.is_given_up:
                command = Release(CUT_OFF_REASON)
            if command is not None:
                task = owned.current
                if not self._deliver(task, Instruction(task.id, command, fence=task.fence)):
                    await self._room()
            elif owned.cancelled == LOST:
                self._runs.by_id.pop(owned.run, None)
            if self._buffer:
                self._owes_signal = True
            else:
                self._signal_free()
            if self.busy <= len(self._runs.given_up):
                self._runs.fewer.set()
            runs += 1
            if runs % RUNS_MAX == 0:
                await asyncio.sleep(0)

    # -- drain -----------------------------------------------------------------------------------

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
        while self.busy > self._runs.deaf:
            if self._hurried:
                self._hurried = False
                return False
            self._runs.fewer.clear()
            if not await self._clock.wait(self._runs.fewer, until - self._clock.monotonic()):
                return False
        return True

    def hurry(self) -> None:
        """Ends `wait_quiet` at once."""
        self._hurried = True
        self._runs.fewer.set()
