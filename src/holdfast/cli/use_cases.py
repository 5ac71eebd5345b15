"""What commands that read ask of a queue. `queue.parts.Parts` does it on a store, `remote.parts.RemoteParts`
through a gateway; a command does not know which it got.

Promises: both have every call of this module, with the same answers and errors; the type checker compares
them, and tests/acceptance/both_ways/ runs every verb with both.
Never: changes anything. A command that does runs over `cli.operations`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Protocol

from holdfast.core.decision import Decision, DecisionState
from holdfast.core.event import Event, Position
from holdfast.core.schedule import Schedule
from holdfast.core.task import Status, Task
from holdfast.queue.dead_letters import DeadFilter, DeadGroup
from holdfast.queue.details import TaskDetails
from holdfast.queue.nodes import Node
from holdfast.queue.queues import QueueView
from holdfast.queue.stats import Stats
from holdfast.queue.why import Why
from holdfast.store.decisions import AskedPoint

if TYPE_CHECKING:
    from holdfast.queue.parts import Parts
    from holdfast.remote.parts import RemoteParts


class Tasks(Protocol):
    async def look_up(self, task_id: str) -> Task | None: ...

    async def find(
        self,
        *,
        status: Status | str | None = None,
        type: str | None = None,
        queue: str | None = None,
        project: str | None = None,
        prefix: str | None = None,
        q: str = "",
        after: str | None = None,
        limit: int = 50,
    ) -> list[Task]: ...

    async def details(self, task_id: str) -> TaskDetails: ...

    async def history(self, task_id: str) -> list[Event]: ...

    async def why(self, task_id: str) -> Why: ...


class Decisions(Protocol):
    async def list(
        self,
        *,
        state: DecisionState | str | None = None,
        assignees: Sequence[str] | None = None,
        limit: int = 50,
    ) -> list[Decision]: ...

    async def get(self, decision_id: str) -> Decision: ...

    async def asked_point(self, decision_id: str) -> AskedPoint | None: ...


class DeadLetters(Protocol):
    async def page_after(
        self, which: DeadFilter, last: Task | None, *, limit: int = 100
    ) -> list[Task]: ...

    async def groups(self, *, limit: int = 50) -> list[DeadGroup]: ...


class Queues(Protocol):
    async def list(self) -> list[QueueView]: ...


class Schedules(Protocol):
    async def list(self) -> list[Schedule]: ...


class Nodes(Protocol):
    async def list(self, *, live: bool = True) -> list[Node]: ...

    async def runners(self) -> Sequence[Node]: ...


class Statistics(Protocol):
    async def get(self) -> Stats: ...


class Feed(Protocol):
    async def position(self) -> Position: ...

    async def is_covered(self, position: Position) -> bool: ...

    def events(
        self, after: Position | str | None = None, *, follow: bool = True
    ) -> AsyncGenerator[Event, None]: ...


class Sessions(Protocol):
    async def now(self) -> float: ...


class TaskReads(Protocol):
    """What reads one task with its details."""

    @property
    def tasks(self) -> Tasks: ...

    @property
    def sessions(self) -> Sessions: ...


class UseCases(TaskReads, Protocol):
    """The parts of a queue."""

    @property
    def decisions(self) -> Decisions: ...

    @property
    def dead_letters(self) -> DeadLetters: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def nodes(self) -> Nodes: ...

    @property
    def stats(self) -> Statistics: ...

    @property
    def feed(self) -> Feed: ...


if TYPE_CHECKING:

    def both_fit(parts: Parts, remote: RemoteParts) -> tuple[UseCases, UseCases]:
        return parts, remote
