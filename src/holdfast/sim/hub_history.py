"""What was observed at the clients of gateways, for the checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

State = tuple[int, str, str]
"""Version, status and payload."""


class Shown(NamedTuple):
    """What a watcher showed."""

    kind: str
    """`snapshot`, `reset` or the kind of an event."""
    offset: int
    """0 for a reset."""
    at: float


class Watched:
    """One watcher over all its processes."""

    def __init__(self, name: str, channel: str) -> None:
        self.name = name
        self.channel = channel
        self.shown: list[Shown] = []
        self.position: str | None = None
        """What the watcher has on its disk."""


class Reported(NamedTuple):
    """A report of a remote handler that the gateway has acknowledged."""

    task_id: str
    fence: int
    value: float


class Intervened(NamedTuple):
    """An answer to an intervention: the id that was asked for, and the one that was answered."""

    id: str
    answered_id: str
    kind: str
    task_id: str


class Ladder(NamedTuple):
    """An intervention at quiescence."""

    id: str
    state: str
    at: float


class Replicas(NamedTuple):
    """What an offline node has on its disk at quiescence."""

    node: str
    states: dict[str, State]
    pending: int
    """Changes that the server has not answered."""


class HubHistory:
    """Filled by the nodes."""

    def __init__(self, time: Callable[[], float]) -> None:
        self.time = time
        self.watched: list[Watched] = []
        self.watched_through = 0
        """The end of the feed when watchers had the time to show it."""
        self.reported: list[Reported] = []
        self.intervened: list[Intervened] = []
        self.ladders: list[Ladder] = []
        self.answered: dict[str, list[str]] = {}
        """Choices that were acknowledged for each decision."""
        self.replicas: list[Replicas] = []
        self.truth: dict[str, State] = {}
        """The tasks of offline nodes, as the server has them."""
