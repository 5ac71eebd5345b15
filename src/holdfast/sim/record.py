"""What the world saw from outside: what was promised to whom, and who ran what when."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.sim.trades import Trades


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


class Belief:
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
        self.beliefs: list[Belief] = []
        self.accepted: list[tuple[str, int]] = []
        """(resource, fence) of each write that the store took under a lock, in its order."""
        self.waits: list[Wait] = []
        self.answers: dict[str, set[str]] = {}
        """What the ledger answered for each operation and key."""
        self.confused: list[str] = []
        """Other requests under a known key that were not refused."""
        self.paid: set[str] = set()
        """Bills that a caller was told are paid."""
        self.outside: dict[str, set[str]] = {}
        """The ids under which each outside effect was tried."""
        self.trades: list[Trades] = []
        """Of each trader."""
        self.saving: list[Belief] = []
        """Holders of locks on a quorum; their fence is the token."""
        self.granted: list[Granted] = []
        self.forgot: dict[str, list[float]] = {}
        """When each lock server lost its memory."""
        self.ungranted: list[str] = []
        """Who asked for a free lock and was not granted it in time."""
        self.died: dict[str, float] = {}
        self.frozen: dict[str, list[tuple[float, float]]] = {}
        self.aborted: set[str] = set()
        """Tasks whose cancel was answered with yes."""

    def acked(self, task_id: str, task_type: str, key: str | None = None) -> None:
        self.acks.append(Ack(task_id, task_type, self.time(), key))
        if key is not None:
            self.keys.setdefault(key, set()).add(task_id)

    def ran(self, task_id: str, fence: int, life: str) -> None:
        self.runs.append(Run(task_id, fence, life, self.time()))
