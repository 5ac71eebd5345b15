"""Observes a cluster while it runs and records violations that the final state does not show.

Promises: twice a simulated second it reads which tasks are ready, what each node could run, what it holds and
its reading of store time; it reports only nodes that no fault has disturbed recently. Never: sends a message,
draws a random number or changes anything.
"""

from __future__ import annotations

import contextvars
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


class Observer:
    """The observer of one run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._record = cluster.record
        self._ready_since: dict[str, float] = {}
        self._free_since: dict[str, float] = {}
        self._claimable: dict[str, int] = {}
        """The count of claims at which all workers that were free are busy, by process."""
        self._active: set[str] = set()
        """The processes that have run code since their last observation. The others have not changed."""
        self._rooms: dict[str, int] = {}
        """How many tasks each process could take when it was last observed."""
        self._reported: set[str] = set()
        self._with_loop_errors: set[str] = set()
        self._closed_at: dict[str, float] = {}
        """When each queue was last paused."""
        self._paces: dict[str, tuple[float, float]] = {}

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
        self._cluster.loop.call_later(OBSERVE_SECONDS, self._tick, context=contextvars.Context())

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
        self._check_pace(NAME, now, store_now)
        self._active |= self._cluster.loop.take_active()
        free: list[tuple[Node, Engine]] = []
        for node in self._up():
            engine = _engine(node)
            if engine is None:
                continue
            if self._is_free(node, engine, now):
                free.append((node, engine))
            if node.life in self._active:
                self._active.discard(node.life)
                self._check_size(node, engine)
            reading = engine.basis.store.now()
            if store_now - reading > CLOCK_LAG_SECONDS_MAX:
                self._check_time(node, now, store_now - reading)
            if now > disturbances.since(node.name):
                self._check_pace(node.life, now, reading)
            else:
                self._paces.pop(node.life, None)
        self._check_idle(free, now)

    def _up(self) -> list[Node]:
        return [
            node
            for node in self._cluster.nodes.values()
            if node.is_up and not self._cluster.loop.is_frozen(node.life)
        ]

    # -- no idle worker beside a task that may run -------------------------------------------------

    def _is_free(self, node: Node, engine: Engine, now: float) -> bool:
        """Whether it has a free worker, and claimed less than it had room for since the last observation."""
        if node.life not in self._active and self._rooms.get(node.life, 0) > 0:
            return True
        pool, claimed = engine.pool, engine.dispatcher.claimed
        room = 0 if engine.dispatcher.stopping else pool.maximum - pool.busy - len(pool._buffer)
        if room < 1 or claimed >= self._claimable.get(node.life, 0):
            self._free_since[node.life] = now
        self._claimable[node.life], self._rooms[node.life] = claimed + room, room
        return room > 0

    def _check_idle(self, free: list[tuple[Node, Engine]], now: float) -> None:
        before = self._ready_since
        ready = self._ready() if free else []
        self._ready_since = {task.id: before.get(task.id, now) for task in ready}
        for task in ready:
            if task.id not in self._reported:
                self._check_task(task, free, now)

    def _check_task(self, task: Ready, free: list[tuple[Node, Engine]], now: float) -> None:
        disturbances = self._cluster.net.disturbances
        for node, engine in free:
            dispatcher = engine.dispatcher
            if task.type not in dispatcher._types() or task.queue not in dispatcher.queues:
                continue
            since = max(self._ready_since[task.id], self._free_since[node.life])
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
        now = database.driver.now()
        rows: list[Any] = []
        if database.has_queued():
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

    def _check_pace(self, reader: str, now: float, store_now: float) -> None:
        before = self._paces.get(reader)
        if before is not None and now - before[0] < PACE_SECONDS:
            return
        since, at = before or (now, store_now)
        self._paces[reader] = (now, store_now)
        if store_now - at < PACE * (now - since):
            self._record.stopped_clocks.append(
                f"store time at {reader} advanced by {store_now - at:.1f} s "
                f"from {since:.1f} to {now:.1f}"
            )

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


def _engine(node: Node) -> Engine | None:
    return None if node.queue is None else node.queue.parts.sessions.running_engine
