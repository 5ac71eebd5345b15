"""The state of one push: the tasks it has locked, and what it will write beside them.

Promises: the effect of one item is undone as a whole if a later part of it is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import msgspec

from holdfast.core import codec
from holdfast.core.exchange.handshake import Tombstone
from holdfast.core.exchange.item import Item
from holdfast.core.exchange.item_wire import InvalidItem
from holdfast.core.exchange.strategy import Strategies
from holdfast.core.exchange.sync_errors import SyncError
from holdfast.core.exchange.verdict import ConflictState, Resolution
from holdfast.core.task import Task
from holdfast.core.totals import reported
from holdfast.store.scripts.work import Work
from holdfast.sync.log import LogRow
from holdfast.sync.sync_task import SyncRow, SyncTask, row_of, view


class ItemResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one item."""

    task_id: str
    """The name that the node uses."""
    success: bool
    new_version: int | None = None
    resolution: str | None = None
    error: str | None = None
    detail: str | None = None
    fence: int | None = None
    duplicate: bool = False
    conflict_id: str | None = None
    late: bool = False
    content_error: str | None = None
    """The status was accepted, but not the content that came with it."""
    deleted_at: float | None = None
    state: SyncTask | None = None
    """The authoritative state, in every refusal of a task that exists."""


class ConflictToAdd(NamedTuple):
    """A row of `holdfast_conflict`, in the order of statement `add_conflicts`."""

    id: str
    task_id: str
    client_id: str
    kind: str
    base_version: int
    server_version: int
    server_json: str
    client_json: str
    mutation_id: str | None
    state: str
    resolution: str | None
    settled_by: str | None

    @property
    def is_open(self) -> bool:
        return self.state == ConflictState.OPEN


class PushState:
    """What a push has read, and collects."""

    def __init__(
        self,
        work: Work,
        *,
        names: dict[str, str],
        rows: dict[str, SyncRow],
        tombstones: dict[str, Tombstone],
        answers: dict[str, tuple[str, str]],
        strategies: Strategies,
    ) -> None:
        self.work = work
        self.names = names
        """Task ids by name."""
        self.rows = rows
        self.tombstones = tombstones
        self.answers = answers
        """(fingerprint, answer) by mutation id."""
        self.strategies = strategies
        self.created: list[Task] = []
        self.written: set[str] = set()
        """Tasks that this push wrote."""
        self.conflicts: list[ConflictToAdd] = []
        self.conflicts_left: int | None = None
        """Open conflicts that the project had room for before this push. None: not read yet."""
        self.mutations: list[tuple[Any, ...]] = []
        self.log: list[LogRow] = []
        self.tally: Counter[str] = Counter()
        self.metrics: list[tuple[Any, ...]] = []
        """Totals that runners reported: task id, node, fence, name, value."""

    def task(self, name: str) -> Task | None:
        task_id = self.names.get(name)
        return None if task_id is None else self.work.tasks.get(task_id)

    def row(self, task: Task) -> SyncRow:
        return row_of(task, self.rows)

    def seen(self, name: str) -> SyncTask | None:
        task = self.task(name)
        return None if task is None else view(task, self.row(task))

    def keep(self, item: Item, result: ItemResult) -> None:
        """Keeps the answer to an item that has a mutation id. The state is read again for a repeat."""
        if item.mutation_id is None or item.mutation_id in self.answers:
            return
        kept = msgspec.structs.replace(result, state=None)
        text = msgspec.json.encode(kept).decode()
        self.answers[item.mutation_id] = (item.fingerprint, text)
        self.mutations.append((item.mutation_id, item.fingerprint, text))

    def measure(self, item: Item, task: Task, node: str, fence: int | None) -> None:
        """Keeps the totals of an accepted item of a runner. An event names them."""
        if fence is None or not item.metrics:
            return
        run = (task.id, node, fence)
        self.metrics += [(*run, name, total) for name, total in sorted(item.metrics.items())]
        self.work.mention([reported(task, node, fence, item.metrics, self.work.now)])

    def note(self, item: Item | InvalidItem, result: ItemResult, from_version: int | None) -> None:
        """Counts an item and adds its row to the log."""
        outcome = outcome_of(result)
        self.tally["pushes"] += 1
        self.tally[_FIGURES[outcome]] += 1
        self.tally["fenced"] += int(result.error in _FENCED)
        self.log.append(
            LogRow(
                "push",
                outcome,
                task_id=item.id or None,
                mutation_id=item.mutation_id,
                code=result.error,
                resolution=result.resolution,
                from_version=from_version,
                to_version=result.new_version,
            )
        )


_FENCED = frozenset({SyncError.NOT_RUNNER.value, SyncError.LOCK_LOST.value})
"""Errors of a node that speaks under a claim which it does not have."""
_FIGURES = {
    "accepted": "accepted",
    "merged": "accepted",
    "duplicate": "duplicates",
    "conflict": "conflicts",
    "late": "late",
    "refused": "refused",
}
"""The figure that counts an outcome."""


def outcome_of(result: ItemResult) -> str:
    if result.duplicate:
        return "duplicate"
    if result.success:
        return "merged" if result.resolution == Resolution.MERGED else "accepted"
    if result.late:
        return "late"
    return "conflict" if result.conflict_id is not None else "refused"


class Snapshot:
    """The state before an item: the tasks, and all that goes beside them."""

    def __init__(self, state: PushState) -> None:
        self._mark = state.work.mark()
        self._counts = (len(state.created), len(state.conflicts), len(state.metrics))
        self._tally = state.tally.copy()
        self._rows = dict(state.rows)
        self._names = dict(state.names)

    def restore(self, state: PushState) -> None:
        """Undoes the item. No conflict, figure, total or event of it stays."""
        created, conflicts, metrics = self._counts
        state.work.rewind(self._mark)
        del state.created[created:]
        del state.conflicts[conflicts:]
        del state.metrics[metrics:]
        state.tally = self._tally
        state.rows = self._rows
        state.names = self._names


def content_json(task: Task, row: SyncRow) -> str:
    """The server's side of a conflict."""
    seen = view(task, row)
    return codec.dumps({"payload": seen.payload, "metadata": seen.metadata, "labels": seen.labels})


def change_json(item: Item) -> str:
    """The node's side of a conflict."""
    side: dict[str, Any] = {}
    change = item.change
    if change.payload_json is not None:
        side["payload"] = codec.loads(change.payload_json)
    if item.metadata:
        side["metadata"] = dict(item.metadata)
    if change.labels_added or change.labels_removed:
        side["labels"] = {
            "add": sorted(change.labels_added),
            "remove": sorted(change.labels_removed),
        }
    return codec.dumps(side)
