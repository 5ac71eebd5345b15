"""The objects behind the channels: their projects and snapshots.

Promises: a snapshot is one read of the use case that also answers the REST resource. Never: decides about
access.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from holdfast.core.access import ALL_PROJECTS, Principal, visible_projects
from holdfast.core.channel import Channel, ChannelKind, ChannelObject
from holdfast.core.errors import AmbiguousId
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.core.wire import check_project
from holdfast.errors import InvalidInput, NotFound
from holdfast.gateway.feed.fleet_directory import FleetDirectory
from holdfast.queue import views
from holdfast.queue.nodes import Nodes
from holdfast.queue.queues import Queues, QueueView
from holdfast.queue.tasks import Tasks
from holdfast.sync import views as hub_views
from holdfast.sync.nodes.nodes import NodeView

Summary = Callable[[Channel, frozenset[str] | None], Awaitable[dict[str, Any]]]
"""Counts and open decisions and conflicts of a project, a user or the system, within the projects that the
reader may see (None: all)."""
Held = Callable[[str], Awaitable[list[tuple[str, int]]]]
"""(task, fence) of the runs of a node."""
Registered = Callable[[Sequence[str]], Awaitable[dict[str, NodeView]]]
"""Those of these nodes that have an identity."""
Knows = Callable[[str], Awaitable[bool]]
"""Whether there is such a project."""
Counted = Callable[[QueueView, frozenset[str] | None], Awaitable[QueueView]]
"""The queue with the counts of these projects (None: all)."""


async def no_summary(channel: Channel, projects: frozenset[str] | None) -> dict[str, Any]:
    del projects
    return {"channel": channel.topic}


async def none_registered(ids: Sequence[str]) -> dict[str, NodeView]:
    del ids
    return {}


async def none_held(node: str) -> list[tuple[str, int]]:
    del node
    return []


async def knows_all(project: str) -> bool:
    del project
    return True


async def counted_whole(queue: QueueView, projects: frozenset[str] | None) -> QueueView:
    del projects
    return queue


class StoreDirectory:
    """See `Directory`. Jobs and hosts are looked up by `fleet`; without it there are none."""

    def __init__(
        self,
        tasks: Tasks,
        queues: Queues,
        nodes: Nodes,
        now: Callable[[], float],
        *,
        summary: Summary = no_summary,
        held: Held = none_held,
        counted: Counted = counted_whole,
        shown: Callable[[Any], Any] = lambda view: view,
        registered: Registered = none_registered,
        knows_project: Knows = knows_all,
        fleet: FleetDirectory | None = None,
    ) -> None:
        self._tasks = tasks
        self._queues = queues
        self._nodes = nodes
        self._summary = summary
        self._held = held
        self._counted = counted
        self._shown = shown
        self._registered = registered
        self._knows_project = knows_project
        self._fleet = fleet
        self._projects = {ALL_PROJECTS, DEFAULT_PROJECT}
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
                return await self._find_project(channel, principal)
            case ChannelKind.USER | ChannelKind.SYSTEM:
                return ChannelObject(ALL_PROJECTS, channel.topic)
            case ChannelKind.JOB | ChannelKind.HOST:
                return None if self._fleet is None else await self._fleet.find(channel, principal)

    async def _find_task(self, channel: Channel, principal: Principal) -> ChannelObject | None:
        name, projects = channel.name, visible_projects(principal)
        try:
            task = await self._tasks.look_up(name, projects)
        except InvalidInput:
            return None
        if task is None and projects is not None:
            # A task of a foreign project: the rules of access decide what is said about it.
            with suppress(AmbiguousId):
                task = await self._tasks.look_up(name)
        if task is None:
            return None
        project = getattr(task, "project", "") or DEFAULT_PROJECT
        return ChannelObject(project, f"task:{task.id}", owner_node=task.node)

    async def _find_project(self, channel: Channel, principal: Principal) -> ChannelObject | None:
        """A project that a token names, that was created, or that has a task. One that was there stays: a
        subscription outlives the retention of its last task."""
        name = channel.name
        if name not in self._projects and name not in principal.projects:
            if not is_project(name) or not await self._knows_project(name):
                return None
            self._projects.add(name)
        return ChannelObject(name, channel.topic)

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
            case ChannelKind.JOB | ChannelKind.HOST:
                view = None if self._fleet is None else await self._fleet.snapshot(found)
                if view is not None:
                    yield view
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


def is_project(name: str) -> bool:
    try:
        check_project("project", name)
    except InvalidInput:
        return False
    return True
