"""Typed reads: tasks, dependencies, nodes, queues, types, schedules, limits, counters, dead letters.

Promises: rows are structs with named fields. Never: writes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.core.affinity import Affinity
from holdfast.core.limit import Limit
from holdfast.core.queue_pause import QueuePause
from holdfast.core.schedule import Schedule
from holdfast.core.task import Status, Task
from holdfast.store.access import Access
from holdfast.store.names import resolve
from holdfast.store.rows import (
    DeadLetterGroup,
    Dependency,
    KeyWeight,
    NodeRow,
    TypeRow,
    read_dependencies,
    read_limits,
    read_nodes,
    read_queues,
    read_runners,
)
from holdfast.store.scripts.feed import Count, ProjectCount
from holdfast.store.scripts.nodes import affinity_to
from holdfast.store.situation import Situation, read_situation


class Reads:
    """The reads of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def get(self, ids: Sequence[str]) -> dict[str, Task]:
        """The tasks of these ids that exist, in the order of the ids. A database finds them in any order."""
        tasks: list[Task] = await self._access.rows("get_tasks", ids=list(ids))
        found = {task.id: task for task in tasks}
        return {id: found[id] for id in ids if id in found}

    async def named(
        self, names: Sequence[str], projects: Collection[str] | None = None
    ) -> dict[str, Task]:
        """The tasks of these ids, or of these names that nodes gave, within the projects (None: all).
        AmbiguousId if a name stands for several tasks."""
        return await self._access.driver.read(lambda: resolve(names, projects))

    async def find(
        self,
        *,
        status: Status | None = None,
        type: str | None = None,
        queue: str | None = None,
        project: str | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[Task]:
        """The tasks that match, the newest first. `after`: the last id of the previous page."""
        return await self._access.rows(
            "find_tasks",
            status=status.value if status else None,
            type=type,
            queue=queue,
            project=project,
            prefix=prefix,
            after=after,
            limit=limit,
        )

    async def dependencies(self, task_id: str) -> list[Dependency]:
        """The tasks that this one depends on."""
        return await self._access.driver.read(lambda: read_dependencies(task_id))

    async def client_id(self, task_id: str) -> str | None:
        """The name that nodes use for the task. None: none has named it."""
        rows = await self._access.rows("clients_of", ids=[task_id])
        return rows[0][1] if rows else None

    async def metrics(self, task_id: str) -> dict[str, float]:
        """The totals of the task's metrics over all its attempts."""
        rows = await self._access.rows("task_metrics", ids=[task_id])
        return {name: total for _, name, total in rows}

    async def dependents(self, task_id: str, limit: int) -> list[str]:
        """The ids of the tasks that wait for this one."""
        return [row[0] for row in await self._access.rows("dependents", id=task_id, limit=limit)]

    async def affinity(self, task_ids: Sequence[str], seconds: float) -> Affinity | None:
        """The preference of these tasks for the nodes that ran them. None: for none of them."""
        if not seconds:
            return None
        tasks = await self.get(task_ids)
        nodes = {task.node for task in tasks.values() if task.node is not None}
        now = self._access.now()
        return await self._access.driver.read(lambda: affinity_to(nodes, seconds, now=now))

    async def nodes(self) -> list[NodeRow]:
        return await self._access.driver.read(read_nodes)

    async def runners(self) -> list[NodeRow]:
        """The nodes that run tasks: all but the agents of hosts."""
        return await self._access.driver.read(read_runners)

    async def queues(self) -> list[QueuePause]:
        return await self._access.driver.read(read_queues)

    async def schema_number(self) -> int:
        """The number of the last migration of the store."""
        return int((await self._access.rows("schema_number"))[0][0])

    async def oldest_due(self, queues: Sequence[str]) -> dict[str, float]:
        """The earliest due time of the tasks of each queue that wait for a worker."""
        rows = await self._access.rows("oldest_due", queues=list(queues))
        return {row[0]: row[1] for row in rows}

    async def types(self) -> list[TypeRow]:
        return [TypeRow(*row) for row in await self._access.rows("types")]

    async def weights(self, type: str, after: str, limit: int) -> list[KeyWeight]:
        """The keys of a type whose weight is not 1, in order, behind the key `after`."""
        rows = await self._access.rows("weights", type=type, after=after, limit=limit)
        return [KeyWeight(*row) for row in rows]

    async def schedules(self) -> list[Schedule]:
        return [Schedule(*row) for row in await self._access.rows("schedules")]

    async def limits(self, names: Sequence[str]) -> list[Limit]:
        """The limits of these names that exist."""
        return await self._access.driver.read(lambda: read_limits(names))

    async def counters(self) -> list[Count]:
        """The counters as of the last count. Unlike `FeedStore.counters` this does not write."""
        return await self._access.rows("counters")

    async def project_counters(self, project: str) -> list[ProjectCount]:
        """The counters of one project as of the last count."""
        rows = await self._access.rows("project_counters", project=project)
        return [tuple(row) for row in rows]

    async def waiting_projects(self, *, without: str) -> list[tuple[str, int]]:
        """The projects with queued tasks, as of the last count, and how many they have. Tasks of the type
        `without` do not count."""
        rows = await self._access.rows("waiting_projects", without=without)
        return [(row[0], int(row[1])) for row in rows]

    async def dead_groups(self, limit: int) -> list[DeadLetterGroup]:
        """Dead letters by error fingerprint, the largest group first."""
        return [
            DeadLetterGroup(*row) for row in await self._access.rows("dead_groups", limit=limit)
        ]

    async def dead_by_hour(self, since: float) -> list[tuple[str, int, int]]:
        """(fingerprint, hours after `since`, n) of the dead letters that have died since."""
        return [tuple(row) for row in await self._access.rows("dead_by_hour", since=since)]

    async def count_dead(
        self,
        *,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        before: float | None = None,
    ) -> int:
        """The number of dead letters that match. `before`: those that died until then."""
        rows = await self._access.rows(
            "count_dead", type=type, queue=queue, fingerprint=fingerprint, before=before
        )
        return int(rows[0][0])

    async def find_dead(
        self,
        *,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        before: float | None = None,
        limit: int,
        skip: int = 0,
    ) -> list[Task]:
        """The dead letters that match, the latest first."""
        return await self._access.rows(
            "find_dead",
            type=type,
            queue=queue,
            fingerprint=fingerprint,
            before=before,
            limit=limit,
            skip=skip,
        )

    async def situation(self, task_id: str) -> Situation | None:
        """A task and what it may wait for, at one moment. None if there is no such task."""
        access = self._access
        return await access.driver.snapshot(lambda: read_situation(task_id, access.now()))

    async def durability(self) -> dict[str, str]:
        """The settings of the database that the durability of a commit depends on."""
        return {row[0]: row[1] for row in await self._access.rows("durability")}
