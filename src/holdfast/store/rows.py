"""Rows of what surrounds tasks, as structs: dependencies, nodes, pauses, types, dead letters, limits.

The scripts here read them, alone (`reads.py`) or with others at one moment (`situation.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.dependency import DependencyPolicy
from holdfast.core.limit import Limit
from holdfast.core.queue_pause import QueuePause
from holdfast.core.task import Status
from holdfast.store.script import Script, call
from holdfast.store.scripts.limits import to_limit


class Dependency(msgspec.Struct, frozen=True):
    """A task that another one waits for."""

    parent_id: str
    policy: DependencyPolicy
    is_settled: bool
    status: Status | None = None
    """None: the row of the task is gone."""


class NodeRow(msgspec.Struct, frozen=True):
    """A node as it registered; `info_json` is what it says about itself."""

    id: str
    started_at: float
    seen_at: float
    info_json: str
    state: str = "live"


class TypeRow(msgspec.Struct, frozen=True):
    """A type as a node registered it."""

    name: str
    queue: str
    config_json: str


class KeyWeight(msgspec.Struct, frozen=True):
    """How many tasks a key of a fair type starts in one turn."""

    key: str
    weight: int
    set_by: str
    set_at: float


class DeadLetterGroup(msgspec.Struct, frozen=True):
    """Dead letters with one fingerprint."""

    fingerprint: str
    count: int
    first_at: float
    last_at: float
    first_id: str
    sample_id: str


def read_dependencies(task_id: str) -> Script[list[Dependency]]:
    return [
        Dependency(
            parent_id,
            DependencyPolicy(policy),
            bool(settled),
            None if status is None else Status(status),
        )
        for parent_id, policy, settled, status in (yield call("dependencies", id=task_id))
    ]


def read_nodes() -> Script[list[NodeRow]]:
    return [NodeRow(*row) for row in (yield call("nodes"))]


def read_runners() -> Script[list[NodeRow]]:
    """The nodes that run tasks: all but the agents of hosts."""
    return [NodeRow(*row) for row in (yield call("runner_nodes"))]


def read_queues() -> Script[list[QueuePause]]:
    return [QueuePause(*row) for row in (yield call("queues"))]


def read_limits(names: Sequence[str]) -> Script[list[Limit]]:
    """The limits of these names that exist."""
    return [to_limit(row) for row in (yield call("get_limits", names=list(names)))]
