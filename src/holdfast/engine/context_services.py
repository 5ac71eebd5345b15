"""What a handler's context asks of the store, on connections that are reserved for runners.

Promises: a write waits out an outage of the store, so that an outage costs no attempt. A lease that was lost
meanwhile is reported after the outage. The timeout of the task ends the wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Any, TypeVar

from holdfast.bus.port import FEED, WORK, Bus
from holdfast.clock import Clock
from holdfast.core.command import Instruction, Report
from holdfast.core.decide import Refusal, Ruling
from holdfast.core.decision import Decision, Question, with_deadline
from holdfast.core.keywords import TaskRequest
from holdfast.core.ledger import EntryLease, EntryRequest, EntryVerdict, Outcome
from holdfast.core.task import Task
from holdfast.engine.follow_ups import NO_FOLLOW_UPS, FollowUps
from holdfast.engine.handle import Source, TaskHandle
from holdfast.engine.loop import OUTAGE_SECONDS
from holdfast.errors import LeaseLost, StoreUnavailable
from holdfast.store.decisions import Asked
from holdfast.store.ledger import EntryStore
from holdfast.store.store import Store

T = TypeVar("T")


class ContextServices:
    """One for each engine. Implements `context.Services`."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        bus: Bus,
        on_refused: Callable[[], None],
        *,
        decision_deadline: float | None = None,
        follow_ups: FollowUps = NO_FOLLOW_UPS,
    ) -> None:
        """`on_refused` is called when a step is refused because its lease was lost. `decision_deadline`: of
        questions without one."""
        self._decision_deadline = decision_deadline
        self._follow_ups = follow_ups
        self._clock = clock
        self._store = store
        self._bus = bus
        self._on_refused = on_refused
        self.entries = EntryStore(store)

    async def report(self, instruction: Instruction) -> Ruling:
        report = instruction.command
        assert isinstance(report, Report)
        ruling = await self._outlast(lambda: self._store.runs.report(instruction, report))
        self._bus.publish(FEED)
        return ruling

    def new_id(self) -> str:
        return self._store.ids.task(self._store.now()).replace("-", "")

    def holds_up(self, tx: object) -> bool:
        return self._store.holds_up(tx)

    async def parents(self, task_id: str) -> dict[str, Task]:
        dependencies = await self._store.reads.dependencies(task_id)
        return await self._store.reads.get([dependency.parent_id for dependency in dependencies])

    async def begin_step(self, request: EntryRequest, tx: object) -> EntryVerdict:
        with self._report_refused():
            if tx is not None:
                return await self.entries.begin(request, tx=tx)
            return await self._outlast(lambda: self.entries.begin(request))

    async def end_step(self, lease: EntryLease, outcome: Outcome | None, tx: object) -> None:
        with self._report_refused():
            if tx is not None or outcome is None:
                # A caller's transaction does not survive an outage, and a step that was given up need not be
                # written.
                await self.entries.end(lease, outcome, tx=tx)
            else:
                await self._outlast(lambda: self.entries.end(lease, outcome))

    async def ask(self, task: Task, question: Question) -> Decision | Asked | Refusal:
        due = with_deadline(question, self._decision_deadline)
        answer = await self._outlast(lambda: self._store.decisions.ask(task.id, task.fence, due))
        if isinstance(answer, Asked):
            self._bus.publish(FEED)
            if task.limits:
                self._bus.publish(WORK)
        return answer

    async def enqueue(self, request: TaskRequest[Any]) -> TaskHandle[Any]:
        return await self._outlast(lambda: self._follow_ups.enqueue(request))

    @property
    def source(self) -> Source:
        return self._follow_ups.source

    @contextmanager
    def _report_refused(self) -> Iterator[None]:
        try:
            yield
        except LeaseLost:
            self._on_refused()
            raise

    async def _outlast(self, write: Callable[[], Awaitable[T]]) -> T:
        pauses = chain(OUTAGE_SECONDS, repeat(OUTAGE_SECONDS[-1]))
        while True:
            try:
                return await write()
            except StoreUnavailable:
                await self._clock.sleep(next(pauses))
