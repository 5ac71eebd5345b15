"""The objects behind the channels: their projects and snapshots.

Promises: a snapshot is one read of the use case that also answers the REST resource. Never: decides about
access.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from holdfast.core.access import ALL_PROJECTS, Principal, visible_projects
from holdfast.core.channel import Channel, ChannelKind, ChannelObject
from holdfast.core.errors import AmbiguousId
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.core.wire import check_project
from holdfast.errors import InvalidInput, NotFound
from holdfast.queue import views
from holdfast.queue.nodes import Nodes
from holdfast.queue.queues import Queues, QueueView
from holdfast.queue.tasks import Tasks
from holdfast.store.store import Store
from holdfast.sync import views as hub_views
from holdfast.sync.names import find_task
from holdfast.sync.nodes import NodeView

TaskByClientId = Callable[[str, Principal], Awaitable[str | None]]
"""The store's id of a task that a plugin calls by its own id, within the projects of the principal."""
Summary = Callable[[Channel, frozenset[str] | None], Awaitable[dict[str, Any]]]
"""Counts and open decisions and conflicts of a project, a user or the system, within the projects that the
reader may see (None: all)."""
Held = Callable[[str], Awaitable[list[tuple[str, int]]]]
"""(task, fence) of the runs of a node."""
Registered = Callable[[Sequence[str]], Awaitable[dict[str, NodeView]]]
"""Those of these nodes that have an identity."""
Counted = Callable[[QueueView, frozenset[str] | None], Awaitable[QueueView]]
"""The queue with the counts of these projects (None: all)."""


async def no_client_ids(client_id: str, principal: Principal) -> str | None:
    del client_id, principal
    return None


async def no_summary(channel: Channel, projects: frozenset[str] | None) -> dict[str, Any]:
    del projects
    return {"channel": channel.topic}


async def none_registered(ids: Sequence[str]) -> dict[str, NodeView]:
    del ids
    return {}


async def none_held(node: str) -> list[tuple[str, int]]:
    del node
    return []


async def counted_whole(queue: QueueView, projects: frozenset[str] | None) -> QueueView:
    del projects
    return queue


class StoreDirectory:
    """See `Directory`. Jobs and hosts are looked up by a directory of the fleet."""

    def __init__(
        self,
        tasks: Tasks,
        queues: Queues,
        nodes: Nodes,
        now: Callable[[], float],
        *,
        task_by_client_id: TaskByClientId = no_client_ids,
        summary: Summary = no_summary,
        held: Held = none_held,
        counted: Counted = counted_whole,
        shown: Callable[[Any], Any] = lambda view: view,
        registered: Registered = none_registered,
    ) -> None:
        self._tasks = tasks
        self._queues = queues
        self._nodes = nodes
        self._task_by_client_id = task_by_client_id
        self._summary = summary
        self._held = held
        self._counted = counted
        self._shown = shown
        self._registered = registered
        self._now = now

    async def find(self, channel: Channel, principal: Principal) -> ChannelObject | None:
        match channel.kind:
            case ChannelKind.TASK:
                return await self._find_task(channel, principal)
            case ChannelKind.QUEUE:
                is_there = await self._queue(channel.name) is not None
                return ChannelObject(ALL_PROJECTS, channel.topic) if is_there else None
            case ChannelKind.NODE:
                node = await self._node(channel.name)
                if node is None:
                    return None
                identity = (await self._registered([node.id])).get(node.id)
                if identity is None:
                    # A process of the store belongs to no project: every principal sees it.
                    project = next(iter(principal.projects), DEFAULT_PROJECT)
                else:
                    project = identity.row.project
                return ChannelObject(project, channel.topic, owner_node=node.id)
            case ChannelKind.PROJECT:
                return _project(channel)
            case ChannelKind.USER | ChannelKind.SYSTEM:
                return ChannelObject(ALL_PROJECTS, channel.topic)
            case ChannelKind.JOB | ChannelKind.HOST:
                return None

    async def _find_task(self, channel: Channel, principal: Principal) -> ChannelObject | None:
        task = await self._tasks.look_up(channel.name)
        if task is None:
            task_id = await self._task_by_client_id(channel.name, principal)
            task = None if task_id is None else await self._tasks.look_up(task_id)
        if task is None:
            return None
        project = getattr(task, "project", "") or DEFAULT_PROJECT
        return ChannelObject(project, f"task:{task.id}", owner_node=task.node)

    async def snapshot(
        self, channel: Channel, found: ChannelObject, principal: Principal
    ) -> AsyncIterator[dict[str, Any]]:
        name = found.topic.partition(":")[2]
        match channel.kind:
            case ChannelKind.TASK:
                task = await self._tasks.look_up(name)
                if task is not None:
                    details = await self._tasks.details(name)
                    yield self._shown(views.task(task, self._now(), details))
            case ChannelKind.QUEUE:
                queue = await self._queue(name)
                if queue is not None:
                    projects = visible_projects(principal)
                    yield self._shown(views.queue(await self._counted(queue, projects)))
            case ChannelKind.NODE:
                node = await self._node(name)
                if node is not None:
                    held = await self._held(name)
                    runs = [{"task_id": task_id, "fence": fence} for task_id, fence in held]
                    identity = (await self._registered([name])).get(name)
                    yield {**hub_views.node(node, self._now(), identity), "held": runs}
            case _:
                yield await self._summary(channel, visible_projects(principal))

    async def _queue(self, name: str) -> Any:
        try:
            return await self._queues.get(name)
        except NotFound:
            return None

    async def _node(self, node_id: str) -> Any:
        nodes = await self._nodes.list(live=False)
        return next((node for node in nodes if node.id == node_id), None)


async def task_named(store: Store, client_id: str, principal: Principal) -> str | None:
    """See `TaskByClientId`. A name that several projects have stands for no task."""
    try:
        found = await find_task(store, client_id, project=None, projects=principal.projects)
    except (NotFound, AmbiguousId, InvalidInput):
        return None
    return found.task_id


def _project(channel: Channel) -> ChannelObject | None:
    try:
        project = (
            channel.name if channel.name == ALL_PROJECTS else check_project("project", channel.name)
        )
    except InvalidInput:
        return None
    return ChannelObject(project, channel.topic)
