"""A task as the exchange sees it: its name, its content with stamps, its latest claim, and the view of nodes.

Promises: every view is made from one task row and one sync row. A payload that was changed outside the
exchange counts as changed by the current version.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import astuple, replace

from holdfast.core import codec, gate
from holdfast.core.exchange.content_hash import content_hash
from holdfast.core.exchange.merge import Labels, LabelTag, Progress, Stamp, Stamped
from holdfast.core.exchange.push import Current, Hold, HoldKind, LastClaim
from holdfast.core.exchange.strategy import Content
from holdfast.core.task import LEASED, Status, Task

SERVER: Final = "server"


class SyncRow(msgspec.Struct, frozen=True):
    """The row of `holdfast_sync_task`, in the order of its columns."""

    project: str
    client_id: str
    task_id: str
    clock: int = 0
    writer: str = ""
    writer_kind: str = ""
    written_version: int = 0
    created_hash: str = ""
    content_json: str = "{}"
    claim_node: str | None = None
    claim_incarnation: int | None = None
    claim_fence: int | None = None
    claim_id: str | None = None

    def values(self) -> tuple[Any, ...]:
        return astuple(self)

    def claimed(self, node: str, incarnation: int, fence: int, claim_id: str | None) -> SyncRow:
        return replace(
            self,
            claim_node=node,
            claim_incarnation=incarnation,
            claim_fence=fence,
            claim_id=claim_id,
        )


def row_of(task: Task, rows: dict[str, SyncRow]) -> SyncRow:
    """The sync row of a task. A task that no node has named is called by its id."""
    return rows.get(task.id) or SyncRow(task.project, task.id, task.id)


class _Stamps(msgspec.Struct, frozen=True, omit_defaults=True):
    """The text of `content_json`."""

    payload: tuple[int, str] | None = None
    """(version that made it, digest)."""
    metadata: dict[str, tuple[int, str]] = {}
    labels: tuple[tuple[str, int, str], ...] = ()
    """(label, version, mutation id) of additions that hold."""


_STAMPS: Final = msgspec.json.Decoder(_Stamps)


def content_of(task: Task, row: SyncRow) -> Content:
    """The content of a task, with the stamps that the exchange keeps. Its labels are the tags of the task. A
    label that was not set through the exchange has no stamp: every removal takes it back."""
    stamps = _STAMPS.decode(row.content_json)
    version = task.version
    if stamps.payload is not None and stamps.payload[1] == codec.digest(task.payload_json):
        version = stamps.payload[0]
    metadata = {
        key: Stamped(Stamp(*stamps.metadata.get(key, (0, ""))), codec.dumps(value))
        for key, value in task.metadata.items()
    }
    added = {label: Stamp(at, by) for label, at, by in stamps.labels}
    labels = frozenset(LabelTag(tag, added.get(tag, Stamp(0, ""))) for tag in task.tags)
    return Content(task.payload_json, version, metadata, Labels(labels))


def stamps_json(content: Content) -> str:
    """The text that `content_of` reads. Additions of labels that were taken back are dropped: this server is
    the only one that joins. Of the others the latest of each label decides: a removal takes back all up to
    the version that its writer had read."""
    tags = sorted(content.labels.added - content.labels.removed, key=lambda tag: tag.stamp)
    held = {tag.label: tag for tag in tags}.values()
    stamps = _Stamps(
        (content.payload_version, codec.digest(content.payload_json)),
        {key: (v.stamp.version, v.stamp.mutation_id) for key, v in content.metadata.items()},
        tuple((tag.label, tag.stamp.version, tag.stamp.mutation_id) for tag in sorted(held)),
    )
    return msgspec.json.encode(stamps).decode()


def metadata_json(content: Content) -> str:
    values = {key: codec.loads(stamped.value_json) for key, stamped in content.metadata.items()}
    return codec.dumps(values)


def progress_of(task: Task) -> Progress:
    """The progress of the current run, or of an earlier one."""
    value = task.progress
    if not isinstance(value, dict):
        done = value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
        return Progress(done=float(done))
    return Progress(
        fence=_whole(value.get("fence")),
        iteration=_whole(value.get("iteration")),
        done=_number(value.get("done")),
        phase=str(value.get("phase") or ""),
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def hold_of(task: Task, node: str) -> Hold:
    """What holds the task, as the node sees it."""
    held_by = task.held_by
    if not gate.is_held(task) or held_by is None:
        return Hold(HoldKind.DECISION) if gate.decision_of(task) is not None else Hold()
    own = gate.NODE_ACTOR + node
    if held_by == own or held_by.startswith(f"{own}: "):
        return Hold(HoldKind.NODE, node)
    if held_by.startswith(gate.NODE_ACTOR):
        return Hold(HoldKind.NODE, held_by.removeprefix(gate.NODE_ACTOR))
    return Hold(HoldKind.OPERATOR)


def current_of(task: Task, row: SyncRow, *, node: str, incarnation: int) -> Current:
    """What the rules of pushes read. A start ends the claims of earlier incarnations, so what a node holds
    is of its current one."""
    claim = None
    if task.status in LEASED and task.node is not None:
        held_in = incarnation if task.node == node else 0
        claim = LastClaim(task.node, held_in, task.fence, task.claim_id or "")
    elif row.claim_node is not None:
        claim = LastClaim(
            row.claim_node, row.claim_incarnation or 0, row.claim_fence or 0, row.claim_id or ""
        )
    content = content_of(task, row)
    return Current(
        status=task.status,
        version=task.version,
        fence=task.fence,
        claim=claim,
        hold=hold_of(task, node),
        progress=progress_of(task),
        payload_json=task.payload_json,
        payload_version=content.payload_version,
        result_json=task.result_json,
        request_hash=row.created_hash,
    )


class TaskLock(msgspec.Struct, frozen=True):
    """The claim that holds a task."""

    node: str
    claim_id: str | None
    fence: int
    locked_at: float
    heartbeat_at: float
    expires_at: float
    duration_seconds: float


class SyncTask(msgspec.Struct, frozen=True):
    """A task as nodes see it."""

    id: str
    task_id: str
    """The id in the store."""
    project: str
    type: str
    status: Status
    desired: str
    """See `core.gate.desired`."""
    version: int
    fence: int
    attempt: int
    progress: Progress
    payload: codec.Json
    result: codec.Json
    error: str | None
    metadata: dict[str, codec.Json]
    labels: list[str]
    lock: TaskLock | None
    clock: int
    writer: str
    writer_kind: str
    created_at: float
    updated_at: float

    @property
    def content_hash(self) -> str:
        return content_hash(
            self.id,
            self.type,
            self.status,
            payload=self.payload,
            result=self.result,
            metadata=self.metadata,
            labels=self.labels,
        )


def view(task: Task, row: SyncRow) -> SyncTask:
    is_by_server = task.version > row.written_version
    return SyncTask(
        id=row.client_id,
        task_id=task.id,
        project=task.project,
        type=task.type,
        status=task.status,
        desired=gate.desired(task),
        version=task.version,
        fence=task.fence,
        attempt=task.attempts,
        progress=progress_of(task),
        payload=task.payload,
        result=task.result,
        error=task.error,
        metadata=task.metadata,
        labels=list(task.tags),
        lock=_lock(task),
        clock=row.clock,
        writer=SERVER if is_by_server else row.writer,
        writer_kind=SERVER if is_by_server else row.writer_kind,
        created_at=task.created_at,
        updated_at=task.updated_at,
    )


def _lock(task: Task) -> TaskLock | None:
    if task.lease_until is None or task.node is None:
        return None
    seconds = task.lease_seconds
    heartbeat_at = task.updated_at if seconds is None else task.lease_until - seconds
    return TaskLock(
        task.node,
        task.claim_id,
        task.fence,
        task.started_at or task.updated_at,
        heartbeat_at,
        task.lease_until,
        task.lease_until - heartbeat_at if seconds is None else seconds,
    )
