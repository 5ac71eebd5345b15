"""Conflicts: both sides of content that was written on one base, until one of them is settled.

Promises: a settlement writes content by an `Edit`, never a status, with its event, in one transaction.
A settlement is answered once: a settled conflict does not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.check import check_choice, check_name, check_page
from holdfast.core.command import Edit, Instruction
from holdfast.core.event import NewEvent
from holdfast.core.exchange.item import LABEL_CHARS_MAX, LABELS_MAX
from holdfast.core.exchange.merge import Labels, Stamp, Stamped, change_labels, join_labels
from holdfast.core.exchange.verdict import ConflictState
from holdfast.core.ids import Ids
from holdfast.core.submit import METADATA_BYTES_MAX, encode_payload
from holdfast.core.task import Task
from holdfast.core.transition import Refusal
from holdfast.errors import IllegalTransition, InvalidInput, NotFound, VersionConflict
from holdfast.queue.by import By
from holdfast.store.beside import begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply
from holdfast.store.scripts.work import Work
from holdfast.store.store import Store
from holdfast.sync.rows import own, read_sync_rows
from holdfast.sync.sync_task import (
    SyncRow,
    SyncTask,
    content_of,
    metadata_json,
    row_of,
    stamps_json,
    view,
)
from holdfast.sync.tally import write_tally


class Take(StrEnum):
    """Which side a settlement takes."""

    SERVER = "server"
    CLIENT = "client"
    MERGED = "merged"


class Conflict(msgspec.Struct, frozen=True):
    """The row of a conflict."""

    id: str
    project: str
    task_id: str
    client_id: str
    kind: str
    base_version: int
    server_version: int
    server_json: str
    client_json: str
    node: str
    mutation_id: str | None
    state: str
    resolution: str | None
    settled_by: str | None
    reason: str | None
    at: float
    version: int


class Settled(msgspec.Struct, frozen=True):
    """The answer to a settlement. Both are None if the task is gone."""

    conflict: Conflict
    task: SyncTask | None
    stored: Task | None = None
    """The same task as its row."""


class Conflicts:
    """The use cases of conflicts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(
        self,
        projects: Sequence[str] | None,
        *,
        state: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Conflict]:
        """One page of several projects, or of all (None), oldest first."""
        check_page(limit)
        if state is not None:
            check_choice("state", state, ConflictState)
        return await self._store.read(lambda: _pages(projects, state, after, limit))

    async def list(
        self, project: str, *, state: str | None = None, after: str = "", limit: int = 100
    ) -> list[Conflict]:
        """One page, oldest first."""
        check_page(limit)
        if state is not None:
            check_choice("state", state, ConflictState)
        return await self._store.read(lambda: _page(project, state, after, limit))

    async def get(self, conflict_id: str) -> Conflict:
        """NotFound if there is none."""
        check_name("conflict_id", conflict_id)
        return await self._store.read(lambda: _get(conflict_id, "get_conflict"))

    async def settle(
        self, conflict_id: str, take: Take, by: By, *, merged: Mapping[str, Any] | None = None
    ) -> Settled:
        """Settles a conflict. `merged` has the content of both: payload, metadata, labels."""
        check_name("conflict_id", conflict_id)
        if take is Take.MERGED and merged is None:
            raise InvalidInput(
                "take is 'merged': give the content in merged (payload, metadata, labels)"
            )
        if take is not Take.MERGED and merged is not None:
            raise InvalidInput(
                f"merged is given, but take is '{take.value}': leave merged out, or take 'merged'"
            )
        content = _checked(merged or {})
        return await self._store.run(
            partial(_settle, conflict_id=conflict_id, take=take, by=by, merged=content)
        )


def _checked(merged: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(merged) - {"payload", "metadata", "labels"})
    if unknown:
        raise InvalidInput(f"merged has '{unknown[0]}': it has payload, metadata and labels")
    if "payload" in merged:
        encode_payload(merged["payload"])
    metadata, labels = merged.get("metadata", {}), merged.get("labels", [])
    if not isinstance(metadata, dict):
        raise InvalidInput("merged.metadata has to be an object")
    encode_payload(metadata, what="metadata", limit=METADATA_BYTES_MAX)
    if not isinstance(labels, list):
        raise InvalidInput("merged.labels has to be a list of names")
    for label in labels:
        check_name("merged.labels", label, most=LABEL_CHARS_MAX)
    return dict(merged)


def _page(project: str, state: str | None, after: str, limit: int) -> Script[list[Conflict]]:
    rows = yield call(own("list_conflicts"), project=project, state=state, after=after, limit=limit)
    return [Conflict(*row) for row in rows]


def _pages(
    projects: Sequence[str] | None, state: str | None, after: str, limit: int
) -> Script[list[Conflict]]:
    names = None if projects is None else list(projects)
    rows = yield call(own("page_conflicts"), projects=names, state=state, after=after, limit=limit)
    return [Conflict(*row) for row in rows]


def _get(conflict_id: str, statement: str) -> Script[Conflict]:
    rows = yield call(own(statement), id=conflict_id)
    if not rows:
        raise NotFound(f"there is no conflict {conflict_id}: see the list of conflicts")
    return Conflict(*rows[0])


def _settle(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    conflict_id: str,
    take: Take,
    by: By,
    merged: dict[str, Any],
) -> Script[Settled]:
    yield from begin(by.beside, now)
    seen = yield from _get(conflict_id, "get_conflict")
    work = Work(now)
    work.load((yield call("lock_tasks", ids=[seen.task_id])))
    conflict = yield from _get(conflict_id, "lock_conflict")
    _check_open(conflict, by)
    task = work.tasks.get(conflict.task_id)
    rows = yield from read_sync_rows([conflict.task_id])
    row = None
    if task is not None:
        row = row_of(task, rows)
        if take is not Take.SERVER:
            row = _write(work, task, row, conflict, take=take, merged=merged, by=by)
        task = work.tasks[task.id]
        _mention(work, task, conflict, take, by)
    after = replace(
        conflict,
        state=ConflictState.SETTLED.value,
        resolution=take.value,
        settled_by=by.actor,
        reason=by.reason,
        version=conflict.version + 1,
    )
    seen_task = view(task, row) if task is not None and row is not None else None
    settled = Settled(after, seen_task, task)

    def beside(now: float) -> Script[tuple[()]]:
        yield call(
            own("settle_conflict"),
            id=conflict_id,
            resolution=take.value,
            settled_by=by.actor,
            reason=by.reason,
            now=now,
        )
        if row is not None:
            yield from _write_row(row)
        yield from write_tally(conflict.project, {"conflicts_open": -1})
        yield from end(by.beside, settled, now)
        return ()

    yield from apply.finish(work, ids.record(now), dialect, then=beside)
    return settled


def _write_row(row: SyncRow) -> Script[None]:
    yield call_rows(own("write_sync_rows"), [row.values()])


def _check_open(conflict: Conflict, by: By) -> None:
    if conflict.state != ConflictState.OPEN:
        raise IllegalTransition(f"conflict {conflict.id} is settled: it does not change any more")
    if by.expected_version not in (None, conflict.version):
        raise VersionConflict(
            f"conflict {conflict.id} is at version {conflict.version}, not {by.expected_version}"
        )


def _write(
    work: Work,
    task: Task,
    row: SyncRow,
    conflict: Conflict,
    *,
    take: Take,
    merged: dict[str, Any],
    by: By,
) -> SyncRow:
    """Writes the content of the side that was taken."""
    side = merged if take is Take.MERGED else codec.loads_object(conflict.client_json)
    content = content_of(task, row)
    stamp = Stamp(task.version + 1, conflict.mutation_id or conflict.id)
    metadata = dict(content.metadata)
    given: Any = side.get("metadata", {})
    metadata |= {key: Stamped(stamp, codec.dumps(value)) for key, value in given.items()}
    labels = join_labels(content.labels, _labels(content.labels, side, task, stamp, take))
    payload = codec.dumps(side["payload"]) if "payload" in side else content.payload_json
    is_new = payload != content.payload_json
    if len(labels.members) > LABELS_MAX:
        raise InvalidInput(f"the task would have over {LABELS_MAX} labels: settle with fewer")
    after = replace(
        content,
        metadata=metadata,
        labels=labels,
        payload_json=payload,
        payload_version=stamp.version if is_new else content.payload_version,
    )
    command = Edit(
        by.actor,
        payload if is_new else None,
        metadata_json=metadata_json(after),
        tags=tuple(sorted(labels.members)),
        reason=by.reason,
    )
    ruling = apply.carry_out(work, Instruction(task.id, command))
    if isinstance(ruling, Refusal):
        raise IllegalTransition(
            f"{ruling.message}: settle with the side 'server', which keeps the task as it is"
        )
    return replace(row, content_json=stamps_json(after))


def _labels(
    labels: Labels, side: Mapping[str, Any], task: Task, stamp: Stamp, take: Take
) -> Labels:
    given: Any = side.get("labels", {})
    if take is Take.MERGED:
        if "labels" not in side:
            return Labels()
        wish = frozenset(given)
        add, remove = wish - labels.members, labels.members - wish
    else:
        add, remove = frozenset(given.get("add", ())), frozenset(given.get("remove", ()))
    return change_labels(labels, add, remove, base_version=task.version, stamp=stamp)


def _mention(work: Work, task: Task, conflict: Conflict, take: Take, by: By) -> None:
    data = {
        "conflict": conflict.id,
        "take": take.value,
        "actor": by.actor,
        "reason": by.reason,
    }
    project = task.event_project
    event = NewEvent("conflict.settled", work.now, task.id, task.type, data, project, task.version)
    work.mention([event])
