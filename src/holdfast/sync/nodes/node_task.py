"""A task in a request of the node that claimed it: locked, and judged by the claim that the node names.

Promises: the sender is judged before the task is locked (lock order). A lease that has ended expires first. A
report under another claim changes nothing, and the log names it. Never: extends a lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from holdfast.core import gate
from holdfast.core.check import check_name, check_whole
from holdfast.core.event import NewEvent
from holdfast.core.hub_rules import HubRules
from holdfast.core.ids import Ids
from holdfast.core.speaking import Voice
from holdfast.core.task import LEASED, Status, Task
from holdfast.core.wire import WHOLE_MAX
from holdfast.errors import InvalidInput, NotFound
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts import apply
from holdfast.store.scripts.work import Work
from holdfast.sync.log import LogRow, write_log
from holdfast.sync.rows import RegisteredNode, read_project, read_sync_rows
from holdfast.sync.speaking import heard
from holdfast.sync.sync_task import SyncRow, SyncTask, row_of, view
from holdfast.sync.tally import write_tally


class ClaimRef(msgspec.Struct, frozen=True, kw_only=True):
    """The claim under which a node speaks. What it does not name is that of its current claim."""

    fence: int | None = None
    claim_id: str | None = None

    def __post_init__(self) -> None:
        if self.claim_id is not None:
            check_name("claimId", self.claim_id)
        if self.fence is not None:
            check_whole("fence", self.fence, least=0, most=WHOLE_MAX)


class NodeTask:
    """A task that the transaction of a request has locked, and the node that sent the request."""

    __slots__ = ("_dialect", "_ids", "node", "row", "task", "work")

    def __init__(
        self, node: RegisteredNode, work: Work, row: SyncRow, dialect: Dialect, ids: Ids
    ) -> None:
        self.node = node
        self.work = work
        self.row = row
        self.task = work.tasks[row.task_id]
        """As it was before the request."""
        self._dialect = dialect
        self._ids = ids

    @property
    def after(self) -> Task:
        """With what the request has changed."""
        return self.work.tasks[self.task.id]

    @property
    def view(self) -> SyncTask:
        return view(self.after, self.row)

    def is_held(self, claim: ClaimRef) -> bool:
        """Whether the node holds the task, under the fence and the claim that it names."""
        task = self.task
        return (
            task.status in LEASED
            and task.node == self.node.id
            and claim.fence in (None, task.fence)
            and claim.claim_id in (None, task.claim_id)
        )

    def log(self, op: str, outcome: str, code: str | None = None) -> LogRow:
        """The entry of the request. One that was accepted has changed the task."""
        return LogRow(
            op,
            outcome,
            task_id=self.row.client_id,
            code=code,
            from_version=self.task.version,
            to_version=self.after.version if outcome == "accepted" else None,
        )

    def finish(
        self, then: Callable[[float], Script[Sequence[NewEvent]]] | None = None
    ) -> Script[None]:
        """See `apply.finish`."""
        record_id = self._ids.record(self.work.now)
        yield from apply.finish(self.work, record_id, self._dialect, then=then)

    def refuse_lost(self, op: str) -> Script[tuple[str, int]]:
        """Refuses a report of a node that does not hold the task. Writes its log, and what the end of the
        claim has changed. Returns why the claim is lost, and the clock of the project."""
        project = self.task.project
        clock = (yield from read_project(project)).clock
        entry = self.log(op, "refused", "LOCK_LOST")

        def beside(now: float) -> Script[tuple[()]]:
            yield from write_log([entry], project=project, node=self.node.id, clock=clock, now=now)
            yield from write_tally(project, {"fenced": 1})
            return ()

        yield from self.finish(beside)
        return why_lost(self.task, self.row, self.node), clock


def locked(
    node: RegisteredNode, task_id: str, dialect: Dialect, ids: Ids, now: float
) -> Script[NodeTask]:
    """Locks the task for a request of this node. A lease that has ended expires. NotFound without a task."""
    work = Work(now)
    work.load((yield call("lock_tasks", ids=[task_id])))
    if task_id not in work.tasks:
        raise NotFound(f"task {task_id} does not exist")
    apply.expire_ended(work, [task_id])
    rows = yield from read_sync_rows([task_id])
    return NodeTask(node, work, row_of(work.tasks[task_id], rows), dialect, ids)


class Reported(msgspec.Struct, frozen=True):
    """A request of a node about a task that it has claimed."""

    voice: Voice
    task_id: str
    claim: ClaimRef
    rules: HubRules


def locked_for(request: Reported, dialect: Dialect, ids: Ids, now: float) -> Script[NodeTask]:
    """Judges the sender and locks the task. InvalidInput if the sender has to name its fence and does not."""
    node = yield from heard(request.voice)
    rules = request.rules
    if request.claim.fence is None and rules.must_fence(node.capabilities):
        why = (
            "this hub requires it (sync.require_fence)"
            if rules.require_fence
            else "the node registered the capability 'fence' and sends it always"
        )
        raise InvalidInput(f"fence is missing: {why}")
    return (yield from locked(node, request.task_id, dialect, ids, now))


def why_lost(task: Task, row: SyncRow, node: RegisteredNode) -> str:
    """Why the node does not hold the task any more."""
    if task.status is Status.ABORTED:
        return "aborted"
    if task.status is Status.PAUSED or gate.is_held(task):
        return "paused"
    if task.status in (Status.COMPLETED, Status.FAILED):
        return "forced"
    if task.assigned_to is not None and task.assigned_to != node.id:
        return "reassigned"
    if task.status in LEASED and task.node != node.id:
        return "reclaimed"
    was_ours = row.claim_node == node.id
    return "expired" if was_ours or task.deaths else "released"
