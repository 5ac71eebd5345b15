"""Observations from outside the product: acknowledged writes, handler runs, locks, orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from holdfast.sim.fleet_history import FleetHistory
from holdfast.sim.hub_history import HubHistory
from holdfast.sim.order_history import OrderHistory


class Ack(NamedTuple):
    """An enqueue that was acknowledged to a client."""

    task_id: str
    type: str
    at: float
    key: str | None


class Run(NamedTuple):
    """The start of a handler."""

    task_id: str
    fence: int
    life: str
    at: float


class ActiveRun:
    """A handler that is running in one process."""

    __slots__ = ("_ctx", "fence", "life", "task_id")

    def __init__(self, task_id: str, fence: int, life: str, ctx: CancelState) -> None:
        self.task_id = task_id
        self.fence = fence
        self.life = life
        self._ctx = ctx

    @property
    def cancel_requested(self) -> bool:
        return self._ctx.cancel_requested


class CancelState(Protocol):
    """The part of a task context that says whether the run was asked to stop."""

    @property
    def cancel_requested(self) -> bool: ...


class HolderInterval:
    """The time in which a holder assumed that it held a lock."""

    __slots__ = ("fence", "life", "resource", "since", "until")

    def __init__(self, resource: str, fence: int | str, life: str, since: float) -> None:
        self.resource = resource
        self.fence = fence
        self.life = life
        self.since = since
        self.until: float | None = None

    def end(self, at: float) -> None:
        """Ends the interval; later calls have no effect."""
        if self.until is None:
            self.until = at


class Granted(NamedTuple):
    """A lock granted by one server of a quorum."""

    server: str
    resource: str
    token: str
    at: float


class Wait(NamedTuple):
    """The time in which a node waited for a lock."""

    resource: str
    life: str
    since: float
    until: float


class Record:
    """Filled by clients and handlers, read by checkers."""

    def __init__(self, time: Callable[[], float]) -> None:
        self.time = time
        self.hub = HubHistory(time)
        """What the clients of gateways observed."""
        self.fleet = FleetHistory()
        """What ran on the hosts of the fleet, and what operators were answered."""
        self.acks: list[Ack] = []
        self.runs: list[Run] = []
        self.keys: dict[str, set[str]] = {}
        """Task ids returned for each idempotency key."""
        self.completed: dict[str, list[int]] = {}
        """Fences under which a handler returned, by task id."""
        self.positions_read: dict[str, list[str]] = {}
        """Feed positions that each subscriber received, in order."""
        self.holders: list[HolderInterval] = []
        self.accepted: list[tuple[str, int]] = []
        """(resource, fence) of each write that the store accepted under a lock, in order."""
        self.waits: list[Wait] = []
        self.answers: dict[str, set[str]] = {}
        """Answers of the ledger, by operation and key."""
        self.key_conflicts_accepted: list[str] = []
        """Keys that accepted a second, different request."""
        self.paid: set[str] = set()
        """Bills whose payment was acknowledged to a caller."""
        self.outside: dict[str, set[str]] = {}
        """Entry ids under which each external effect was attempted."""
        self.order_histories: list[OrderHistory] = []
        """One of each trader."""
        self.quorum_holders: list[HolderInterval] = []
        """Holders of quorum locks; the fence is the token."""
        self.granted: list[Granted] = []
        self.restarts: dict[str, list[float]] = {}
        """Times at which each lock server restarted and lost its state."""
        self.ungranted: list[str] = []
        """Requests for a free lock that were not granted in time."""
        self.left_open: list[str] = []
        """Ledger keys that a cancelled call left in progress."""
        self.close_errors: list[str] = []
        """`Locks` objects that granted a lock after close(), or whose close() hung."""
        self.died: dict[str, float] = {}
        self.stopping: dict[str, float] = {}
        """Start of the graceful stop of each process."""
        self.frozen: dict[str, list[tuple[float, float]]] = {}
        self.running: dict[tuple[str, str], list[ActiveRun]] = {}
        """Running handlers, by process and task id."""
        self.overlaps: list[str] = []
        """Tasks with two runs at the same time in one process."""
        self.idle: list[str] = []
        """Tasks that stayed ready too long while a worker was free."""
        self.stopped_clocks: list[str] = []
        """Readings of store time that did not advance."""
        self.left_behind: list[str] = []
        """Tasks whose row names a process that has stopped gracefully."""
        self.clock_lags: list[str] = []
        """Nodes whose reading of store time was late."""
        self.loop_errors: list[str] = []
        """Engine loops that died, or caught an unexpected error."""
        self.false_deaths: list[str] = []
        """Deaths counted for tasks whose runner was alive."""
        self.oversized: list[str] = []
        """Nodes that owned more runs or coroutines than their bound."""
        self.aborted: set[str] = set()
        """Tasks whose cancellation was acknowledged."""

    def acked(self, task_id: str, task_type: str, key: str | None = None) -> None:
        self.acks.append(Ack(task_id, task_type, self.time(), key))
        if key is not None:
            self.keys.setdefault(key, set()).add(task_id)

    def ran(self, task_id: str, fence: int, life: str) -> None:
        self.runs.append(Run(task_id, fence, life, self.time()))

    def entered(self, task_id: str, fence: int, life: str, ctx: CancelState) -> ActiveRun:
        """A handler starts. Records an overlap with another run of the same task."""
        self.ran(task_id, fence, life)
        run = ActiveRun(task_id, fence, life, ctx)
        active = self.running.setdefault((life, task_id), [])
        self.overlaps += [
            f"{task_id} runs under fences {other.fence} and {fence} in {life} at {self.time():.3f}"
            for other in active
            if not other.cancel_requested
        ]
        active.append(run)
        return run

    def left(self, run: ActiveRun) -> None:
        self.running[run.life, run.task_id].remove(run)
