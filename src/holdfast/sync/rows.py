"""Rows of projects, nodes and names of tasks, and the statements that read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from holdfast.core import codec
from holdfast.core.event import NewEvent
from holdfast.core.exchange.strategy import FieldClass, Strategies, Strategy
from holdfast.core.node_identity import Boot, NodeIdentity, NodeState
from holdfast.core.task import DEFAULT_PROJECT, Task
from holdfast.store.script import Script, call, statements_of
from holdfast.sync.errors import UnknownNode
from holdfast.sync.sync_task import SyncRow

own: Final = statements_of("holdfast.sync")
"""Names the statements of this package."""


class ProjectRow(msgspec.Struct, frozen=True):
    """A project."""

    id: str
    clock: int = 0
    strategy: str = Strategy.MERGE.value
    settings_json: str = "{}"
    version: int = 1

    @property
    def strategies(self) -> Strategies:
        settings = codec.loads_object(self.settings_json)
        overrides: Any = settings.get("strategies", {})
        return Strategies(
            Strategy(self.strategy),
            {FieldClass(name): Strategy(value) for name, value in overrides.items()},
        )


class RegisteredNode(msgspec.Struct, frozen=True):
    """A node with an identity."""

    id: str
    project: str
    kind: str
    state: str
    incarnation: int
    boots_json: str
    started_at: float
    registered_at: float | None
    seen_at: float
    lost_at: float | None
    capabilities_json: str
    labels_json: str
    token_id: str | None
    token_at: float | None
    clock: int
    position: str | None
    skew_ms: int | None = None
    """How far its clock was ahead of the store's. None: it has not named its time."""

    @property
    def identity(self) -> NodeIdentity:
        boots = msgspec.json.decode(self.boots_json, type=tuple[Boot, ...])
        # A node whose credential was revoked gets another one when it is admitted again.
        issued_at = None if self.token_id is None else self.token_at
        return NodeIdentity(
            self.incarnation, NodeState(self.state), boots, self.started_at, issued_at
        )

    @property
    def capabilities(self) -> list[str]:
        names: list[str] = msgspec.json.decode(self.capabilities_json, type=list[str])
        return names


def read_project(project: str, *, lock: bool = False) -> Script[ProjectRow]:
    """The project. One that has no row yet has the defaults."""
    rows = yield call(own("lock_project") if lock else own("get_project"), id=project)
    return ProjectRow(*rows[0]) if rows else ProjectRow(project)


def unknown_node(node: str) -> UnknownNode:
    return UnknownNode(f"no node '{node}' has registered: register it first")


def read_node(node: str) -> Script[RegisteredNode]:
    """UnknownNode unless it has registered."""
    rows = yield call(own("get_node"), id=node)
    if not rows:
        raise unknown_node(node)
    return RegisteredNode(*rows[0])


def names_of(tasks: Iterable[Task]) -> Script[dict[str, str]]:
    """The name of each task, by its id. A task that no node has named is called by its id."""
    ids = [task.id for task in tasks]
    rows = (yield call("clients_of", ids=ids)) if ids else []
    return {id: id for id in ids} | {row[0]: row[1] for row in rows}


def read_sync_rows(ids: Sequence[str]) -> Script[dict[str, SyncRow]]:
    """The sync rows of tasks, by their ids. A task that no node has named has none."""
    rows = (yield call(own("sync_rows"), ids=list(ids))) if ids else []
    return {row.task_id: row for row in (SyncRow(*values) for values in rows)}


def event_of(kind: str, now: float, project: str, data: dict[str, Any]) -> NewEvent:
    """An event that is not about one task."""
    return NewEvent(kind, now, "", "", data, "" if project == DEFAULT_PROJECT else project)
