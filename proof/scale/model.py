"""Where one PostgreSQL ends: a queueing model in virtual time.

A server has cores, one lock of commits that send a NOTIFY, one lock of the feed's head, and one disk that
syncs the write-ahead log for all commits that wait. Producers hand in tasks, workers run them, a reader gives
the records their offsets and counts them, and old tasks are deleted as fast as new ones come. The costs are
measured (`costs`); which resource ends, and at how many tasks a second, is computed. The same seed gives the
same result.

Not in the model: locks of rows and of pages, checkpoints, networks. The figures for many cores are upper
bounds.
"""

from __future__ import annotations

import heapq
import random
from itertools import count
from typing import Final

from holdfast.bus.postgres import AT_ONCE, FEED_SECONDS, QUIET_SECONDS
from holdfast.engine.sweeper import PRUNE_BATCH
from proof.scale.parts import (
    Commit,
    Give,
    Load,
    Machine,
    Outcome,
    Process,
    Resource,
    Take,
    Use,
    Wait,
)

JITTER: Final = 0.2
"""Each step takes up to this share more or less than its mean."""
CLAIMED: Final = 400
"""Tasks of one claim, and outcomes of one commit."""
IDLE_SECONDS: Final = 0.001
BACKLOG_MAX: Final = 20_000
"""Producers wait while more tasks than this wait: the model shows what can be kept up."""
COUNT_SECONDS: Final = 0.5
SMALL_BYTES: Final = 200.0
"""The log of a commit that changes next to nothing."""
WARM_SHARE: Final = 0.3
"""The part of a run that is not counted."""


class Run:
    """One simulation."""

    def __init__(self, machine: Machine, load: Load, seed: int = 1) -> None:
        self.machine, self.load = machine, load
        self.now = 0.0
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Process | None]] = []
        self._order = count()
        self.cores = Resource("cores", machine.cores)
        self.hint = Resource("hint lock")
        self.feed = Resource("feed lock")
        self.disk = Resource("disk")
        self._pending: list[Process] = []
        self._pending_wal = 0.0
        self._syncing: list[Process] = []
        self._written = 0.0
        self.waiting = self.given = self.done = self.unread = self.uncounted = self.unpruned = 0
        self.records = self.events = self.commits = self.syncs = 0
        self.wal = self.worked = 0.0

    def result(self, seconds: float) -> Outcome:
        self._start()
        warm = seconds * WARM_SHARE
        self._until(warm)
        before = self._counts()
        for resource in (self.cores, self.hint, self.feed, self.disk):
            resource.tick(self.now)
            resource.busy = 0.0
        self.worked = 0.0
        self._until(seconds)
        passed = seconds - warm
        for resource in (self.cores, self.hint, self.feed, self.disk):
            resource.tick(seconds)
        rates = [(b - a) / passed for a, b in zip(before, self._counts(), strict=True)]
        tasks, given, commits, syncs, wal, records, written = rates
        return Outcome(
            tasks=tasks,
            given=given,
            use={
                **{r.name: r.busy / r.size / passed for r in (self.cores, self.hint, self.feed)},
                "disk": self.disk.busy / passed,
                "log": written,
            },
            behind=self.unread / records if records else 0.0,
            commits=commits,
            syncs=syncs,
            wal=wal,
            workers_busy=self.worked / passed / max(1, self.load.workers),
        )

    def _counts(self) -> tuple[float, ...]:
        return (
            *(self.done, self.given, self.commits, self.syncs, self.wal, self.records),
            self._written,
        )

    def _start(self) -> None:
        load = self.load
        processes = [self._producer() for _ in range(load.producers)]
        processes += [self._worker() for _ in range(load.workers)]
        if load.number:
            processes += [self._numberer(), self._counter()]
        processes += [self._watcher() for _ in range(load.watchers)]
        if load.prune:
            processes += [self._pruner() for _ in range(load.workers)]
        for process in processes:
            self._at(self._random.random() * 0.01, process)

    def _until(self, end: float) -> None:
        while self._events and self._events[0][0] <= end:
            self.now, _, process = heapq.heappop(self._events)
            if process is None:
                self._synced()
            else:
                self._next(process)
        self.now = end

    def _at(self, seconds: float, process: Process | None) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), process))

    def _next(self, process: Process) -> None:
        """Runs a process until a step takes time."""
        for step in process:
            match step:
                case Wait():
                    self._at(step.seconds, process)
                    return
                case Use():
                    self._at(step.seconds, process)
                    return
                case Take():
                    if not self._took(step.resource, process):
                        return
                case Give():
                    self._give(step.resource)
                case Commit():
                    self._commit(step.wal, process)
                    return

    def _took(self, resource: Resource, process: Process) -> bool:
        if resource.taken == resource.size:
            resource.line.append(process)
            return False
        resource.tick(self.now)
        resource.taken += 1
        return True

    def _give(self, resource: Resource) -> None:
        if resource.line:
            self._at(0.0, resource.line.popleft())
            return
        resource.tick(self.now)
        resource.taken -= 1

    def _commit(self, wal: float, process: Process) -> None:
        self.commits += 1
        self.wal += wal
        self._pending.append(process)
        self._pending_wal += wal
        if not self.disk.taken:
            self._sync()

    def _sync(self) -> None:
        self.disk.tick(self.now)
        self.disk.taken = 1
        self._syncing, self._pending = self._pending, []
        write = self._pending_wal / self.machine.wal_bytes_per_second
        self._pending_wal = 0.0
        self._written += write
        self.syncs += 1
        self._at(self.machine.sync_seconds + write, None)

    def _synced(self) -> None:
        self.disk.tick(self.now)
        self.disk.taken = 0
        ready, self._syncing = self._syncing, []
        if self.machine.gathers:
            ready += self._pending
            self._pending, self._pending_wal = [], 0.0
        for process in ready:
            self._at(0.0, process)
        if self._pending:
            self._sync()

    def _jittered(self, seconds: float) -> float:
        return seconds * (1.0 + JITTER * (2.0 * self._random.random() - 1.0))

    def _compute(self, seconds: float) -> Process:
        yield Take(self.cores)
        yield Use(self._jittered(seconds))
        yield Give(self.cores)

    def _beside(self, seconds: float) -> Process:
        """Work of a client."""
        if self.machine.shared:
            yield from self._compute(seconds)
        else:
            yield Wait(self._jittered(seconds))

    def _producer(self) -> Process:
        load = self.load
        spent_until = last = 0.0
        while True:
            while self.waiting > BACKLOG_MAX:
                yield Wait(IDLE_SECONDS)
            yield from self._beside(load.client * load.tasks)
            # The rate of hints of a process: as in `holdfast.bus.postgres`.
            ahead = max(self.now, spent_until)
            hints = load.hints and ahead - self.now <= QUIET_SECONDS * (AT_ONCE - 1)
            if hints:
                spent_until = ahead + QUIET_SECONDS
            began = self.now
            yield from self._compute(load.server * load.tasks)
            if hints:
                yield Take(self.hint)
            yield Commit(load.wal * load.tasks)
            if hints:
                yield Give(self.hint)
                self._notified()
                took = self.now - began
                spent_until += max(0.0, load.hint_cost * min(took, last) - QUIET_SECONDS)
                last = took
            self.waiting += load.tasks
            self.given += load.tasks
            self._recorded(load.tasks)

    def _notified(self) -> None:
        load = self.load
        if load.wake:
            listeners = load.producers + load.workers + load.watchers
            for _ in range(listeners):
                self._at(0.0, self._compute(load.wake))

    def _recorded(self, events: int) -> None:
        self.records += 1
        self.unread += 1
        self.events += events

    def _worker(self) -> Process:
        load = self.load
        hinted_at = 0.0
        while True:
            n = min(CLAIMED, self.waiting)
            if not n:
                yield Wait(IDLE_SECONDS)
                continue
            self.waiting -= n
            started_at = self.now
            for _ in ("claim", "finish"):
                yield from self._compute(load.run_server * n / 2)
                yield Commit(load.run_wal * n / 2)
                self._recorded(n)
                yield from self._beside(load.run_client * n / 2)
            if load.hints and self.now - hinted_at >= FEED_SECONDS:
                # A NOTIFY without a change syncs nothing, so it holds the lock for a moment only.
                hinted_at = self.now
                yield Take(self.hint)
                yield Give(self.hint)
                self._notified()
            self.done += n
            self.unpruned += n
            self.worked += self.now - started_at

    def _numberer(self) -> Process:
        """A reader of the feed."""
        while True:
            if self.unread:
                yield Take(self.feed)
                n, self.unread = self.unread, 0
                yield from self._compute(self.load.number * n)
                yield Commit(self.load.feed_wal * n)
                yield Give(self.feed)
                self.uncounted += n
            yield Wait(FEED_SECONDS)

    def _counter(self) -> Process:
        while True:
            if self.uncounted:
                yield Take(self.feed)
                n, self.uncounted = self.uncounted, 0
                yield from self._compute(self.load.count * n)
                yield Commit(SMALL_BYTES)
                yield Give(self.feed)
            yield Wait(COUNT_SECONDS)

    def _watcher(self) -> Process:
        seen = 0
        while True:
            n, seen = self.events - seen, self.events
            if n:
                yield from self._compute(self.load.watch * n)
            yield Wait(FEED_SECONDS)

    def _pruner(self) -> Process:
        while True:
            if self.unpruned < PRUNE_BATCH:
                yield Wait(IDLE_SECONDS * 10)
                continue
            self.unpruned -= PRUNE_BATCH
            yield from self._compute(self.load.prune * PRUNE_BATCH)
            yield Commit(self.load.prune_wal * PRUNE_BATCH)
