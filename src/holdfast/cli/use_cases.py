"""What commands ask of a queue. `queue.parts.Parts` does it on a store, `remote.parts.RemoteParts` through a
gateway; a command does not know which it got.

Promises: both have every call of this module, with the same answers and errors; the type checker compares
them, and tests/acceptance/test_cli_gateway.py runs every verb with both.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.core.decision import Decision, DecisionState
from holdfast.core.event import Event, Position
from holdfast.core.intervention import DryRun
from holdfast.core.intervention_args import Wish
from holdfast.core.lease import Audit
from holdfast.core.schedule import Schedule
from holdfast.core.task import Priority, Status, Task
from holdfast.primitives.locks import LeaseInfo
from holdfast.queue.by import By
from holdfast.queue.dead_letters import DeadFilter, DeadGroup
from holdfast.queue.details import TaskDetails
from holdfast.queue.nodes import Node
from holdfast.queue.queues import QueueView
from holdfast.queue.stats import Stats
from holdfast.queue.why import Why
from holdfast.store.decisions import AskedPoint
from holdfast.store.interventions import Issued

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
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[Task]: ...

    async def details(self, task_id: str) -> TaskDetails: ...

    async def history(self, task_id: str) -> list[Event]: ...

    async def why(self, task_id: str) -> Why: ...

    async def edit(self, task_id: str, payload: object, by: By, *, merge: bool = False) -> Task: ...


class Interventions(Protocol):
    async def issue(self, task_id: str, wish: Wish, by: By) -> Issued: ...

    async def foresee(self, task_id: str, wish: Wish, by: By) -> DryRun: ...


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

    async def answer(self, decision_id: str, choice: object, by: By) -> Decision: ...


class DeadLetters(Protocol):
    async def page_after(
        self, which: DeadFilter, last: Task | None, *, limit: int = 100
    ) -> list[Task]: ...

    async def get(self, task_id: str) -> Task: ...

    async def groups(self, *, limit: int = 50) -> list[DeadGroup]: ...

    async def replay(
        self, task_id: str, by: By, *, payload: object = ..., delay: float = 0.0
    ) -> Task: ...

    async def discard(self, task_id: str, by: By) -> Task: ...

    async def replay_all(
        self,
        which: DeadFilter,
        by: By,
        *,
        rate: float | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> int: ...

    async def discard_all(
        self, which: DeadFilter, by: By, *, limit: int | None = None, dry_run: bool = False
    ) -> int: ...


class Queues(Protocol):
    async def list(self) -> list[QueueView]: ...

    async def get(self, name: str) -> QueueView: ...

    async def pause(self, name: str, by: By) -> None: ...

    async def resume(self, name: str, by: By) -> None: ...


class Schedules(Protocol):
    async def list(self) -> list[Schedule]: ...

    async def get(self, name: str) -> Schedule: ...

    async def put(
        self,
        name: str,
        by: By,
        *,
        spec: str,
        type: str,
        payload: object = None,
        timezone: str = "UTC",
        queue: str | None = None,
        priority: Priority | str | int | None = None,
    ) -> None: ...

    async def remove(self, name: str, by: By) -> None: ...

    async def pause(self, name: str, by: By) -> Schedule: ...

    async def resume(self, name: str, by: By) -> Schedule: ...


class Locks(Protocol):
    async def list(self, *, after: str = "", limit: int = 50) -> list[LeaseInfo]: ...

    async def show(self, resource: str) -> LeaseInfo: ...

    async def revoke(self, resource: str, by: By) -> Audit: ...


class Nodes(Protocol):
    async def list(self, *, live: bool = True) -> list[Node]: ...


class Statistics(Protocol):
    async def get(self) -> Stats: ...


class Feed(Protocol):
    async def position(self) -> Position: ...

    async def is_covered(self, position: Position) -> bool: ...

    async def new_epoch(self) -> Position: ...

    def events(
        self, after: Position | str | None = None, *, follow: bool = True
    ) -> AsyncGenerator[Event, None]: ...


class Sessions(Protocol):
    async def now(self) -> float: ...


class UseCases(Protocol):
    """The parts of a queue."""

    @property
    def tasks(self) -> Tasks: ...

    @property
    def interventions(self) -> Interventions: ...

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

    @property
    def sessions(self) -> Sessions: ...


class Api(Protocol):
    """The operations of a gateway: of one far away, or of one in this process on the store."""

    async def call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        query: dict[str, object] | None = None,
    ) -> Any:
        """The body of the answer. Raises the error of a refusal."""
        ...


if TYPE_CHECKING:

    def both_fit(parts: Parts, remote: RemoteParts) -> tuple[UseCases, UseCases]:
        return parts, remote
