"""Typed reads of what surrounds tasks: dependencies, nodes, queues, types, schedules, limits, dead letters.

Promises: rows come as structs, by name. Never: writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.dependency import DependencyPolicy
from holdfast.core.limit import Limit
from holdfast.core.schedule import Schedule
from holdfast.core.task import Task
from holdfast.store.access import Access
from holdfast.store.script import Script, call
from holdfast.store.scripts.feed import Count
from holdfast.store.scripts.limits import to_limit


class Dependency(msgspec.Struct, frozen=True):
    """A task that another one waits for."""

    parent_id: str
    policy: DependencyPolicy
    is_settled: bool


class NodeRow(msgspec.Struct, frozen=True):
    """A node as it registered; `info_json` is what it says about itself."""

    id: str
    started_at: float
    seen_at: float
    info_json: str


class QueuePause(msgspec.Struct, frozen=True):
    """A queue that is paused, or was."""

    name: str
    paused_at: float | None
    paused_by: str | None
    reason: str | None


class TypeRow(msgspec.Struct, frozen=True):
    """A type as a node registered it."""

    name: str
    queue: str
    config_json: str


class DeadLetterGroup(msgspec.Struct, frozen=True):
    """Dead letters with one fingerprint."""

    fingerprint: str
    count: int
    first_at: float
    last_at: float
    sample_id: str


class DeadFilter(msgspec.Struct, frozen=True):
    """Which dead letters; None for any. `before`: those that died until then."""

    type: str | None = None
    queue: str | None = None
    fingerprint: str | None = None
    before: float | None = None


def read_nodes() -> Script[list[NodeRow]]:
    """For scripts that read several things at one moment, like the two below."""
    return [NodeRow(*row) for row in (yield call("nodes"))]


def read_queues() -> Script[list[QueuePause]]:
    return [QueuePause(*row) for row in (yield call("queues"))]


def read_limits(names: Sequence[str]) -> Script[list[Limit]]:
    """Those of these names that exist."""
    return [to_limit(row) for row in (yield call("get_limits", names=list(names)))]


class Reads:
    """The reads of one store."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    async def dependencies(self, task_id: str) -> list[Dependency]:
        rows = await self._access.rows("dependencies", id=task_id)
        return [
            Dependency(parent_id, DependencyPolicy(policy), bool(settled))
            for parent_id, policy, settled in rows
        ]

    async def dependents(self, task_id: str, limit: int) -> list[str]:
        """The ids of the tasks that wait for this one."""
        return [row[0] for row in await self._access.rows("dependents", id=task_id, limit=limit)]

    async def nodes(self) -> list[NodeRow]:
        return await self._access.driver.read(read_nodes)

    async def queues(self) -> list[QueuePause]:
        return await self._access.driver.read(read_queues)

    async def types(self) -> list[TypeRow]:
        return [TypeRow(*row) for row in await self._access.rows("types")]

    async def schedules(self) -> list[Schedule]:
        return [Schedule(*row) for row in await self._access.rows("schedules")]

    async def limits(self, names: Sequence[str]) -> list[Limit]:
        """Those of these names that exist."""
        return await self._access.driver.read(lambda: read_limits(names))

    async def counters(self) -> list[Count]:
        """As of the last count: counting writes, this does not."""
        return await self._access.rows("counters")

    async def dead_groups(self, limit: int) -> list[DeadLetterGroup]:
        """By error fingerprint, the largest first."""
        return [
            DeadLetterGroup(*row) for row in await self._access.rows("dead_groups", limit=limit)
        ]

    async def count_dead(self, which: DeadFilter) -> int:
        return int((await self._access.rows("count_dead", **msgspec.structs.asdict(which)))[0][0])

    async def find_dead(self, which: DeadFilter, *, limit: int, skip: int = 0) -> list[Task]:
        """The latest first."""
        return await self._access.rows(
            "find_dead", limit=limit, skip=skip, **msgspec.structs.asdict(which)
        )

    async def durability(self) -> dict[str, str]:
        """The settings of the database that an acknowledged write depends on."""
        return {row[0]: row[1] for row in await self._access.rows("durability")}
