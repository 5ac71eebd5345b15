"""Worker sync as use cases: greet a worker, apply its messages, give it tasks, renew its leases.

Promises: what is answered is durable. A repeated claim id gets the same tasks. Durations go out, absolute
times do not. Never: knows a transport or a credential; the caller names the node and its project.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from holdfast.clock import Clock
from holdfast.core.hub_rules import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN
from holdfast.core.loop_block import reported_block
from holdfast.core.priority import AGEING_SECONDS
from holdfast.core.speaking import Voice
from holdfast.core.task import DEFAULT_PROJECT, RunId, Status, Task
from holdfast.core.worker.protocol import Greeting, Reception
from holdfast.core.worker.wire import HeldRunState, LostRun, Renew
from holdfast.engine.meters import LATE
from holdfast.errors import BatchTooLarge
from holdfast.metrics import Meter, NullMeter
from holdfast.store.port import RowHeld
from holdfast.store.store import Store
from holdfast.sync.speaking import heard
from holdfast.sync.worker import figures, receivers
from holdfast.sync.worker.claims import NamedClaim, WorkerClaims
from holdfast.sync.worker.decisions import ask_decision
from holdfast.sync.worker.group_commit import GATHER_SECONDS, GroupCommit
from holdfast.sync.worker.messages import (
    AskDecision,
    Batch,
    Inbound,
    MessageAnswer,
    apply_messages,
)
from holdfast.sync.worker.plain import KnownTasks
from holdfast.sync.worker.receivers import Start

LEASE_SECONDS: Final = 60.0
"""The lease of a worker that asks for none."""
SKIP_SECONDS: Final = 1.0
"""How long messages skip held tasks after one was met. Else each of them would wait for its rows first."""
HELD_MAX: Final = 1_000
"""Runs in one renewal."""


OnChanged: TypeAlias = Callable[[bool], None]
"""Called after a commit: whether tasks may be ready now that were not before."""


class RenewedRuns(msgspec.Struct, frozen=True):
    """The answer to a renewal."""

    kept: tuple[HeldRunState, ...]
    lost: tuple[LostRun, ...]
    """Without the runs that have completed their tasks: their worker has reported that itself."""
    lease_seconds: float


class WorkerSync:
    """The use cases of one gateway process. All its connections share the group commit."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        gather_seconds: float = GATHER_SECONDS,
        ask_decision: AskDecision = ask_decision,
        on_changed: OnChanged = lambda _: None,
        meter: Meter | None = None,
        ageing_seconds: float = AGEING_SECONDS,
        lease_max_seconds: float = LEASE_SECONDS_MAX,
    ) -> None:
        """`on_changed` is called after commits that changed tasks: others may wait for their events."""
        self.store = store
        self._clock = clock
        self._skips_until = 0.0
        self._lease_max_seconds = lease_max_seconds
        self.on_changed = on_changed
        self._meter: Meter = NullMeter() if meter is None else meter
        self._ask_decision = ask_decision
        self._known = KnownTasks()
        self._claims = WorkerClaims(store, clock, ageing_seconds=ageing_seconds)
        self._commits = GroupCommit(self.apply, clock, gather_seconds=gather_seconds)
        self.put = self._commits.put
        """Queues a message for the next commit; the future ends after it."""

    def lease_seconds(self, lease_ms: int) -> float:
        """The lease that is granted for the one that was asked for."""
        return lease_seconds(lease_ms, self._lease_max_seconds)

    async def close(self) -> None:
        """Waits for the messages that were put."""
        await self._commits.close()

    async def hello(self, start: Start) -> Greeting:
        return await receivers.hello(self.store, start)

    async def apply(self, messages: Sequence[Inbound]) -> list[MessageAnswer]:
        """Applies messages in one transaction. Changes of tasks that another transaction holds are refused
        with the code `held`. RowHeld if it holds a row that tasks share, e.g. of a limit."""
        if self._clock.monotonic() >= self._skips_until:
            with suppress(RowHeld):
                return await self._apply(messages, skips_held=False)
            self._skips_until = self._clock.monotonic() + SKIP_SECONDS
        return await self._apply(messages, skips_held=True)

    async def _apply(self, messages: Sequence[Inbound], *, skips_held: bool) -> list[MessageAnswer]:
        store = self.store
        first, second = store.ids.record(store.now()), store.ids.record(store.now())
        applied = await store.run(
            lambda dialect, _, now: apply_messages(
                messages,
                Batch(
                    now=now,
                    record_id=second,
                    plain_record_id=first,
                    known=self._known.tasks,
                    dialect=dialect,
                    ask_decision=self._ask_decision,
                    skips_held=skips_held,
                ),
            ),
            wait_seconds=0.0,
        )
        if applied.is_cut_short:
            store.cascades.on_cut_short()
        self._known.forget(messages)
        answers = applied.answers
        outcomes = [answer.outcome for answer in answers]
        figures.count(self._meter, outcomes, [answer.ack for answer in answers])
        if applied.late:
            self._meter.count(LATE, applied.late, kind="worker")
        if Reception.APPLY in outcomes:
            self.on_changed(applied.frees_work)
        return answers

    async def claim(self, request: NamedClaim) -> list[Task]:
        """The tasks of this claim: those that it took before, or the next in order."""
        tasks = await self._claims.claim(request)
        self._known.add(tasks)
        return tasks

    async def renew(
        self,
        voice: Voice,
        renew: Renew,
        project: str = DEFAULT_PROJECT,
        served: Mapping[str, object] = MappingProxyType({}),
    ) -> RenewedRuns:
        """Renews the leases of the runs that the node holds, and names those that it lost. A run in neither
        list has completed its task, or was not renewed because another transaction holds the task: the worker
        asks again soon. `served`: what its row says besides its load."""
        node = voice.node
        if len(renew.held) > HELD_MAX:
            raise BatchTooLarge(f"a renewal has at most {HELD_MAX} runs, not {len(renew.held)}")
        seconds = self.lease_seconds(renew.lease_ms)
        tasks = await self.store.reads.get(sorted({held.task_id for held in renew.held}))
        runs, lost = [], []
        for held in renew.held:
            task = tasks.get(held.task_id)
            reason = loss_reason(task, node, held.fence, project)
            if reason is None and task is not None:
                runs.append(task.run)
            elif not _has_completed(task, held.fence):
                lost.append(LostRun(task_id=held.task_id, fence=held.fence, reason=reason or ""))
        load = {"busy": renew.running, "workers": renew.slots, "lease_seconds": seconds}
        block = reported_block(renew.blocked_json)
        blocked = {} if block is None else {"blocked": block}
        info = msgspec.json.encode({**served, **load, **blocked}).decode()
        answer = await self.store.heartbeat(node, info, runs, seconds, guard=lambda: heard(voice))
        if answer.lost:
            again = await self.store.reads.get(sorted({run.task_id for run in answer.lost}))
            lost += [
                _lost(run, task, node, project)
                for run in answer.lost
                if not _has_completed(task := again.get(run.task_id), run.fence)
            ]
        kept = tuple(
            HeldRunState(task_id=run.task_id, fence=run.fence)
            for run in runs
            if run in answer.renewed
        )
        return RenewedRuns(kept, tuple(lost), seconds)


def lease_seconds(lease_ms: int, most: float = LEASE_SECONDS_MAX) -> float:
    """The lease that is granted for the one that was asked for."""
    if not lease_ms:
        return min(LEASE_SECONDS, most)
    return min(max(lease_ms / 1000, LEASE_SECONDS_MIN), most)


_REASONS: Final = {
    Status.PAUSED: "paused",
    Status.ABORTED: "aborted",
    Status.QUEUED: "released",
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
}


def loss_reason(task: Task | None, node: str, fence: int, project: str) -> str | None:
    """Why a node does not hold a run; None while it does. Fence 0: the run that it holds now."""
    if task is None or task.project != project:
        return "gone"
    if task.status in _REASONS:
        return _REASONS[task.status]
    if task.node == node and fence in (0, task.fence):
        return None
    return "reclaimed"


def _has_completed(task: Task | None, fence: int) -> bool:
    """Whether the run of this fence has completed the task."""
    return task is not None and task.status is Status.COMPLETED and task.fence == fence


def _lost(run: RunId, task: Task | None, node: str, project: str) -> LostRun:
    reason = loss_reason(task, node, run.fence, project) or "expired"
    return LostRun(task_id=run.task_id, fence=run.fence, reason=reason)
