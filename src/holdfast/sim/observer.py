"""Looks at a cluster while it works: at rest everything is in order, or seems to be.

Promises: sees what the store has ready, what each node could run, what it holds and whether its time goes on,
twice a simulated second; speaks up only about nodes that nothing has disturbed since. Changes nothing: it is
no node, sends nothing and draws nothing.
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

LOOK_SECONDS: Final = 0.5
IDLE_SECONDS: Final = 1.0
"""For which a task may wait beside a free worker: some messages there and back."""
POLLED_SECONDS: Final = PUSHED_POLL_SECONDS + IDLE_SECONDS
"""The same where a hint may have been lost."""
PACE_SECONDS: Final = 5.0
PACE: Final = 0.5
"""The least that the store's time goes on, of so many true seconds."""
CLOCK_LAG_SECONDS_MAX: Final = 1.0
"""How far a node may be behind the store's time: what it leases ends early by so much."""
HELD_REST: Final = capacity.CLAIM_MAX
"""Runs in memory: one claim whose tasks are all given back at once, because their workers have died."""
HELD_EACH: Final = 4
"""More for each worker: at work, claimed ahead, unwinding, on their way to the store."""
TASKS_REST: Final = 60
TASKS_EACH: Final = 6
"""Coroutines for each worker, beside those of a node at rest."""


class Ready(NamedTuple):
    """A task that the rows allow to run."""

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
        """What the count of claims comes to once all workers that were free have something to do."""
        self._told: set[str] = set()
        self._with_loop_errors: set[str] = set()
        self._closed_at: dict[str, float] = {}
        """When each queue was last seen paused."""
        self._paces: dict[str, tuple[float, float]] = {}

    def lost(self, before: Change, after: Change) -> None:
        """A runner was taken for dead. If nothing kept it from its renewals, it was not."""
        life = (before.node or "").partition(":")[0]
        node = self._cluster.nodes.get(life.partition("#")[0])
        if node is None or node.life != life or not node.is_up:
            return
        disturbances = self._cluster.net.disturbances
        if self._cluster.loop.is_frozen(life) or not disturbances.knows_the_time(
            after.by, after.at
        ):
            return
        if after.at > disturbances.reached_since(node.name):
            self._record.false_deaths.append(
                f"{after.id} was taken from {life} at {after.at:.1f}, which runs and reaches the store"
            )

    def begin(self) -> None:
        """From now on, until the loop ends."""
        self._cluster.loop.call_later(LOOK_SECONDS, self._again, context=contextvars.Context())

    def _again(self) -> None:
        self._look(self._cluster.loop.time())
        self.begin()

    def _look(self, now: float) -> None:
        database, disturbances = self._cluster.database, self._cluster.net.disturbances
        if not self._cluster.net.is_there(NAME) or (database.disk and database.disk.is_dead):
            disturbances.disturb_all(now)
            self._ready_since.clear()
            return
        self._check_pace(NAME, now, database.driver.now())
        workers = [(node, engine) for node in self._up() if (engine := _engine(node)) is not None]
        free = [each for each in workers if self._is_free(*each, now)]
        for node, engine in workers:
            self._check_size(node, engine)
            self._check_time(node, engine, now)
            if now > disturbances.since(node.name):
                self._check_pace(node.life, now, engine._store.now())
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
        """Whether it has a free worker, and claimed less since the look before than it had room for."""
        pool, claimed = engine.pool, engine.dispatcher.claimed
        room = 0 if engine.dispatcher.stopping else pool.maximum - pool.busy - len(pool._buffer)
        if room < 1 or claimed >= self._claimable.get(node.life, 0):
            self._free_since[node.life] = now
        self._claimable[node.life] = claimed + room
        return room > 0

    def _check_idle(self, free: list[tuple[Node, Engine]], now: float) -> None:
        before = self._ready_since
        ready = self._ready() if free else []
        self._ready_since = {task.id: before.get(task.id, now) for task in ready}
        for task in ready:
            if task.id not in self._told:
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
                self._told.add(task.id)
                self._record.idle.append(
                    f"{task.id} ({task.type}) could have run on {node.life} from {since:.1f} on "
                    f"and still waited at {now:.1f}"
                )
                return

    def _is_hinted(self, task: Ready, node: Node, since: float) -> bool:
        """Whether no hint about it can have been missed: by this node, or by the one who should send it."""
        disturbances, database = self._cluster.net.disturbances, self._cluster.database
        return (
            since - disturbances.heard_since(node.name) > POLLED_SECONDS
            and since > disturbances.since(database.changed_by(task.id))
            and since - self._closed_at.get(task.queue, -POLLED_SECONDS) > POLLED_SECONDS
        )

    def _ready(self) -> list[Ready]:
        """What the rows allow to run now: due, of a queue that is open, with a permit of each limit."""
        database = self._cluster.database
        now = database.driver.now()
        rows: list[Any] = database.rows(
            "SELECT id, type, queue, limits FROM holdfast_task WHERE status = 'queued' AND due_at <= ?",
            now,
        )
        paused = database.rows("SELECT name FROM holdfast_queue WHERE paused_at IS NOT NULL")
        for (name,) in paused:
            self._closed_at[name] = self._cluster.loop.time()
            rows = [row for row in rows if row[2] != name]
        if not any(row[3] for row in rows):
            return [Ready(*row[:3]) for row in rows]
        found: list[Any] = database.rows(
            "SELECT name, rule_json, running, parked, full_until, opens_at, rule_at FROM holdfast_limit"
        )
        limits = [rules.Limit(row[0], _rule(row[1]), *row[2:]) for row in found]
        full = {each.name for each in limits if rules.permits(each, now) < 1}
        return [
            Ready(*row[:3]) for row in rows if not row[3] or full.isdisjoint(row[3].split("\n"))
        ]

    # -- time and memory ---------------------------------------------------------------------------

    def _check_pace(self, whose: str, now: float, theirs: float) -> None:
        begun, at = self._paces.setdefault(whose, (now, theirs))
        if now - begun < PACE_SECONDS:
            return
        self._paces[whose] = (now, theirs)
        if theirs - at < PACE * (now - begun):
            self._record.stopped_clocks.append(
                f"the store's time at {whose} went on by {theirs - at:.1f} s "
                f"from {begun:.1f} to {now:.1f}"
            )

    def _check_time(self, node: Node, engine: Engine, now: float) -> None:
        """It judges leases by it, also when its machine has just woken."""
        behind = self._cluster.database.driver.now() - engine._store.now()
        if behind > CLOCK_LAG_SECONDS_MAX and now > self._cluster.net.disturbances.clock_since(
            node.name
        ):
            self._record.clock_lags.append(
                f"{node.life} was {behind:.1f} s behind the store's time at {now:.1f}"
            )

    def _check_size(self, node: Node, engine: Engine) -> None:
        if engine.troubles and node.life not in self._with_loop_errors:
            self._with_loop_errors.add(node.life)
            self._record.loop_errors.append(
                f"a loop of {node.life} met an error that it did not foresee"
            )
        if engine.supervisor.restarts and node.life not in self._with_loop_errors:
            self._with_loop_errors.add(node.life)
            self._record.loop_errors.append(
                f"a loop of {node.life} died before {self._record.time():.1f}"
            )
        pool = engine.pool
        held, tasks = len(pool.held), self._cluster.loop.tasks_of(node.life)
        if (
            held > HELD_REST + HELD_EACH * pool.maximum
            or tasks > TASKS_REST + TASKS_EACH * pool.maximum
        ):
            self._record.oversized.append(
                f"{node.life} holds {held} runs and {tasks} coroutines with {pool.maximum} workers "
                f"at {self._record.time():.1f}"
            )


def _rule(rule_json: str) -> rules.LimitRule:
    return msgspec.json.decode(rule_json, type=rules.LimitRule)


def _engine(node: Node) -> Engine | None:
    return node.queue._engine if node.queue is not None and node.queue.is_running() else None
