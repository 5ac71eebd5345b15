"""Observes a cluster while it runs and records violations that the final state does not show.

Promises: twice a simulated second it reads which tasks are ready, what each node could run, what it holds and
its reading of store time; it reports only nodes that no fault has disturbed recently. Never: sends a message,
draws a random number or changes anything.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core import capacity, limit as rules
from holdfast.core.claiming import PUSHED_POLL_SECONDS
from holdfast.engine.engine import Engine
from holdfast.sim.node import Cluster, Node
from holdfast.sim.server import NAME, Change

OBSERVE_SECONDS: Final = 0.5
IDLE_SECONDS: Final = 1.0
"""How long a ready task may wait for a free worker: a few round trips."""
POLLED_SECONDS: Final = PUSHED_POLL_SECONDS + IDLE_SECONDS
"""The same when a hint may have been lost."""
PACE_SECONDS: Final = 5.0
PACE: Final = 0.5
"""Least advance of store time per second of loop time, over `PACE_SECONDS`."""
CLOCK_LAG_SECONDS_MAX: Final = 1.0
"""How far a node's reading may be behind store time: its leases end early by as much."""
RUNS_BASE: Final = capacity.CLAIM_MAX
"""Runs in memory: one claim whose tasks are all released because their workers have died."""
RUNS_PER_WORKER: Final = 4
"""Further runs for each worker: running, claimed ahead, unwinding, being written."""
TASKS_BASE: Final = 60
TASKS_PER_WORKER: Final = 6
"""Further coroutines for each worker."""


class Ready(NamedTuple):
    """A task that may run according to the rows."""

    id: str
    type: str
    queue: str


class View:
    """What is known of one process. Only its own code changes it, apart from its time."""

    __slots__ = ("claimable", "engine", "free_since", "life", "node", "pace", "read_time", "room")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.life = node.life
        self.engine: Engine | None = None
        self.read_time: Callable[[], float] = node.clock.now
        """Store time, as the process reads it."""
        self.claimable = 0
        """The count of claims at which all workers that were free are busy."""
        self.room = 0
        """How many tasks it could take."""
        self.free_since = 0.0
        self.pace: tuple[float, float] | None = None
        """Since when its pace is judged, and its time then."""


class Observer:
    """The observer of one run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._record = cluster.record
        self._context = contextvars.Context()
        self._ready_since: dict[str, float] = {}
        self._active: set[str] = set()
        """The processes that have run code since their last observation. The others have not changed."""
        self._views: dict[str, View] = {}
        """The view of the last process of each node."""
        self._reported: set[str] = set()
        self._with_loop_errors: set[str] = set()
        self._closed_at: dict[str, float] = {}
        """When each queue was last paused."""
        self._pace: tuple[float, float] | None = None
        """Of the database, like `View.pace`."""

    def lost(self, before: Change, after: Change) -> None:
        """A task was taken from its runner. That is false when nothing kept the runner from renewing."""
        life = (before.node or "").partition(":")[0]
        node = self._cluster.nodes.get(life.partition("#")[0])
        if node is None or node.life != life or not node.is_up:
            return
        disturbances = self._cluster.net.disturbances
        if self._cluster.loop.is_frozen(life) or not disturbances.knows_the_time(
            after.by, after.at
        ):
            return
        peers = [node.name, *(peer for peer in node.peers if peer != NAME)]
        since = max(disturbances.reached_since(peer) for peer in peers)
        if after.at > since and (len(peers) == 1 or self._is_active(life, after.id)):
            self._record.false_deaths.append(
                f"{after.id} was taken from {life} at {after.at:.1f}, which runs and reaches the store"
            )

    def _is_active(self, life: str, task_id: str) -> bool:
        """Whether a worker behind gateways still runs the task: a lost offer or renewal ends a run before the
        store takes the task away."""
        runs = self._record.running.get((life, task_id), ())
        return any(not run.cancel_requested for run in runs)

    def begin(self) -> None:
        """Observes from now on, until the loop ends."""
        self._cluster.loop.call_later(OBSERVE_SECONDS, self._tick, context=self._context)

    def _tick(self) -> None:
        self._observe(self._cluster.loop.time())
        self.begin()

    def _observe(self, now: float) -> None:
        database, disturbances = self._cluster.database, self._cluster.net.disturbances
        if not self._cluster.net.is_there(NAME) or (database.disk and database.disk.is_dead):
            disturbances.disturb_all(now)
            self._ready_since.clear()
            return
        store_now = database.driver.now()
        if self._pace is None or now - self._pace[0] >= PACE_SECONDS:
            self._pace = self._check_pace(NAME, self._pace, now, store_now)
        self._active |= self._cluster.loop.take_active()
        active, frozen, views = self._active, self._cluster.loop.frozen, self._views
        all_since, calls = disturbances.all_since(), disturbances.calls
        free: list[tuple[View, Engine]] = []
        for node in self._cluster.nodes.values():
            life = node.life
            if not node.is_up or life in frozen:
                continue
            is_active = life in active
            view = views.get(node.name)
            if is_active or view is None or view.life != life:
                view = views[node.name] = _view(node, view)
            if (engine := view.engine) is None:
                continue
            if (view.room > 0 and not is_active) or self._is_free(view, engine, now):
                free.append((view, engine))
            if is_active:
                active.discard(life)
                self._check_size(node, engine)
            reading = view.read_time()
            if store_now - reading > CLOCK_LAG_SECONDS_MAX:
                self._check_time(node, now, store_now - reading)
            if now <= all_since or now <= calls.get(node.name, 0.0):
                view.pace = None
            elif view.pace is None or now - view.pace[0] >= PACE_SECONDS:
                view.pace = self._check_pace(life, view.pace, now, reading)
        self._check_idle(free, now)

    # -- no idle worker beside a task that may run -------------------------------------------------

    def _is_free(self, view: View, engine: Engine, now: float) -> bool:
        """Whether it has a free worker, and claimed less than it had room for since the last observation."""
        pool, claimed = engine.pool, engine.dispatcher.claimed
        room = 0 if engine.dispatcher.stopping else pool.maximum - pool.busy - len(pool._buffer)
        if room < 1 or claimed >= view.claimable:
            view.free_since = now
        view.claimable, view.room = claimed + room, room
        return room > 0

    def _check_idle(self, free: list[tuple[View, Engine]], now: float) -> None:
        before = self._ready_since
        ready = self._ready() if free else []
        self._ready_since = {task.id: before.get(task.id, now) for task in ready}
        for task in ready:
            if task.id not in self._reported:
                self._check_task(task, free, now)

    def _check_task(self, task: Ready, free: list[tuple[View, Engine]], now: float) -> None:
        disturbances = self._cluster.net.disturbances
        for view, engine in free:
            node, dispatcher = view.node, engine.dispatcher
            if task.type not in dispatcher._types() or task.queue not in dispatcher.queues:
                continue
            since = max(self._ready_since[task.id], view.free_since)
            patience = IDLE_SECONDS if self._is_hinted(task, node, since) else POLLED_SECONDS
            if now - since > patience and since > disturbances.since(node.name):
                self._reported.add(task.id)
                self._record.idle.append(
                    f"{task.id} ({task.type}) could have run on {node.life} from {since:.1f} on "
                    f"and still waited at {now:.1f}"
                )
                return

    def _is_hinted(self, task: Ready, node: Node, since: float) -> bool:
        """Whether no fault at the sender or at this node can have lost the hint about this task."""
        disturbances, database = self._cluster.net.disturbances, self._cluster.database
        return (
            since - disturbances.heard_since(node.name) > POLLED_SECONDS
            and since > disturbances.since(database.changed_by(task.id))
            and since - self._closed_at.get(task.queue, -POLLED_SECONDS) > POLLED_SECONDS
        )

    def _ready(self) -> list[Ready]:
        """Tasks that may run now: due, not held or reserved, in a queue that is not paused, with a permit
        of each limit."""
        database = self._cluster.database
        now, rows = 0.0, list[Any]()
        if database.has_queued():
            now = database.driver.now()
            rows = database.rows(
                "SELECT id, type, queue, limits FROM holdfast_task WHERE status = 'queued' "
                "AND due_at <= ? AND (gate IS NULL OR substr(gate, 1, 1) <> '!')",
                now,
            )
        for name in database.paused_queues():
            self._closed_at[name] = self._cluster.loop.time()
            rows = [row for row in rows if row[2] != name]
        if not any(row[3] for row in rows):
            return [Ready(*row[:3]) for row in rows]
        limit_rows: list[Any] = database.rows(
            "SELECT name, rule_json, running, parked, full_until, opens_at, rule_at FROM holdfast_limit"
        )
        limits = [rules.Limit(row[0], _rule(row[1]), *row[2:]) for row in limit_rows]
        full = {limit.name for limit in limits if rules.permits(limit, now) < 1}
        return [
            Ready(*row[:3]) for row in rows if not row[3] or full.isdisjoint(row[3].split("\n"))
        ]

    # -- time and memory ---------------------------------------------------------------------------

    def _check_pace(
        self, reader: str, before: tuple[float, float] | None, now: float, store_now: float
    ) -> tuple[float, float]:
        """Judges the time since `before`, and returns where the next such time begins."""
        since, at = before or (now, store_now)
        if store_now - at < PACE * (now - since):
            self._record.stopped_clocks.append(
                f"store time at {reader} advanced by {store_now - at:.1f} s "
                f"from {since:.1f} to {now:.1f}"
            )
        return now, store_now

    def _check_time(self, node: Node, now: float, behind: float) -> None:
        """A node that is behind. It judges leases by its reading of store time, also after a suspend."""
        if now > self._cluster.net.disturbances.clock_since(node.name):
            self._record.clock_lags.append(
                f"{node.life} was {behind:.1f} s behind store time at {now:.1f}"
            )

    def _check_size(self, node: Node, engine: Engine) -> None:
        if engine.troubles and node.life not in self._with_loop_errors:
            self._with_loop_errors.add(node.life)
            self._record.loop_errors.append(f"a loop of {node.life} caught an unexpected error")
        if engine.supervisor.restarts and node.life not in self._with_loop_errors:
            self._with_loop_errors.add(node.life)
            self._record.loop_errors.append(
                f"a loop of {node.life} died before {self._record.time():.1f}"
            )
        pool = engine.pool
        runs, tasks = len(engine.runs.by_id), self._cluster.loop.tasks_of(node.life)
        if (
            runs > RUNS_BASE + RUNS_PER_WORKER * pool.maximum
            or tasks > TASKS_BASE + TASKS_PER_WORKER * pool.maximum
        ):
            self._record.oversized.append(
                f"{node.life} owns {runs} runs and {tasks} coroutines with {pool.maximum} workers "
                f"at {self._record.time():.1f}"
            )


def _rule(rule_json: str) -> rules.LimitRule:
    return msgspec.json.decode(rule_json, type=rules.LimitRule)


def _view(node: Node, view: View | None) -> View:
    """The view of a process that has run code."""
    if view is None or view.life != node.life:
        view = View(node)
    view.engine = None if node.queue is None else node.queue.parts.sessions.running_engine
    if view.engine is not None:
        view.read_time = view.engine.basis.store.now
    return view
