"""What the world saw from outside: what was promised to whom, and who ran what when."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from holdfast.sim.order_history import OrderHistory


class Ack(NamedTuple):
    """A task that a client was told is in the store."""

    task_id: str
    type: str
    at: float
    key: str | None


class Run(NamedTuple):
    """A handler that was entered."""

    task_id: str
    fence: int
    life: str
    at: float


class ActiveRun:
    """A handler at work in one process."""

    __slots__ = ("_ctx", "fence", "life", "task_id")

    def __init__(self, task_id: str, fence: int, life: str, ctx: CancelState) -> None:
        self.task_id = task_id
        self.fence = fence
        self.life = life
        self._ctx = ctx

    @property
    def is_told_to_stop(self) -> bool:
        return self._ctx.cancel_requested


class CancelState(Protocol):
    """What a run knows of its own end."""

    @property
    def cancel_requested(self) -> bool: ...


class HolderInterval:
    """A holder of a lock, for as long as it took itself for one."""

    __slots__ = ("fence", "life", "resource", "since", "until")

    def __init__(self, resource: str, fence: int | str, life: str, since: float) -> None:
        self.resource = resource
        self.fence = fence
        self.life = life
        self.since = since
        self.until: float | None = None

    def end(self, at: float) -> None:
        """The first word counts."""
        if self.until is None:
            self.until = at


class Granted(NamedTuple):
    """A yes of one lock server of a quorum."""

    server: str
    resource: str
    token: str
    at: float


class Wait(NamedTuple):
    """A while in which a node stood in line for a lock."""

    resource: str
    life: str
    since: float
    until: float


class Record:
    """Filled by clients and handlers, read by checkers."""

    def __init__(self, time: Callable[[], float]) -> None:
        self.time = time
        self.acks: list[Ack] = []
        self.runs: list[Run] = []
        self.keys: dict[str, set[str]] = {}
        """The ids that were answered for an idempotency key."""
        self.completed: dict[str, list[int]] = {}
        """Fences under which a handler returned, by task."""
        self.seen: dict[str, list[str]] = {}
        """Positions that each subscriber was given, in its order."""
        self.holders: list[HolderInterval] = []
        self.accepted: list[tuple[str, int]] = []
        """(resource, fence) of each write that the store took under a lock, in its order."""
        self.waits: list[Wait] = []
        self.answers: dict[str, set[str]] = {}
        """What the ledger answered for each operation and key."""
        self.key_conflicts_accepted: list[str] = []
        """Other requests under a known key that were not refused."""
        self.paid: set[str] = set()
        """Bills that a caller was told are paid."""
        self.outside: dict[str, set[str]] = {}
        """The ids under which each outside effect was tried."""
        self.order_histories: list[OrderHistory] = []
        """Of each trader."""
        self.quorum_holders: list[HolderInterval] = []
        """Holders of locks on a quorum; their fence is the token."""
        self.granted: list[Granted] = []
        self.restarts: dict[str, list[float]] = {}
        """When each lock server lost its memory."""
        self.ungranted: list[str] = []
        """Who asked for a free lock and was not granted it in time."""
        self.left_open: list[str] = []
        """Keys of the ledger that a cancelled caller left in progress."""
        self.close_errors: list[str] = []
        """Locks that were closed and granted all the same, or that hung."""
        self.died: dict[str, float] = {}
        self.stopping: dict[str, float] = {}
        """When processes began to stop in order."""
        self.frozen: dict[str, list[tuple[float, float]]] = {}
        self.running: dict[tuple[str, str], list[ActiveRun]] = {}
        """Handlers at work, by process and task."""
        self.overlaps: list[str] = []
        """Tasks that ran beside themselves in one process."""
        self.idle: list[str] = []
        """Tasks that could have run while a worker was free, for too long."""
        self.stopped_clocks: list[str] = []
        """Clocks of the store that did not go on."""
        self.left_behind: list[str] = []
        """What still ran, by the rows, under the name of a process that had stopped in order."""
        self.clock_lags: list[str] = []
        """Nodes that were behind the store's time."""
        self.loop_errors: list[str] = []
        """Loops of engines that died of an error, or met one that they did not foresee."""
        self.false_deaths: list[str] = []
        """Deaths that were counted against tasks whose runners live."""
        self.oversized: list[str] = []
        """What a node held in memory beyond its bound."""
        self.aborted: set[str] = set()
        """Tasks whose cancel was answered with yes."""

    def acked(self, task_id: str, task_type: str, key: str | None = None) -> None:
        self.acks.append(Ack(task_id, task_type, self.time(), key))
        if key is not None:
            self.keys.setdefault(key, set()).add(task_id)

    def ran(self, task_id: str, fence: int, life: str) -> None:
        self.runs.append(Run(task_id, fence, life, self.time()))

    def entered(self, task_id: str, fence: int, life: str, ctx: CancelState) -> ActiveRun:
        """A handler begins; whether another run of the same task goes on beside it."""
        self.ran(task_id, fence, life)
        run = ActiveRun(task_id, fence, life, ctx)
        beside = self.running.setdefault((life, task_id), [])
        self.overlaps += [
            f"{task_id} runs under fences {other.fence} and {fence} in {life} at {self.time():.3f}"
            for other in beside
            if not other.is_told_to_stop
        ]
        beside.append(run)
        return run

    def left(self, run: ActiveRun) -> None:
        self.running[run.life, run.task_id].remove(run)
