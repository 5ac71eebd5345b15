"""The objects behind the channels: their projects and snapshots.

Promises: a snapshot is one read of the use case that also answers the REST resource. Never: decides about
access.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from holdfast.core.access import ALL_PROJECTS, Principal
from holdfast.core.channel import Channel, ChannelKind, ChannelObject
from holdfast.core.check import PAGE_MAX
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.core.wire import check_project
from holdfast.errors import InvalidInput, NotFound
from holdfast.queue import views
from holdfast.queue.nodes import Nodes
from holdfast.queue.queues import Queues
from holdfast.queue.tasks import Tasks

TaskByClientId = Callable[[str, Principal], Awaitable[str | None]]
"""The store's id of a task that a plugin calls by its own id, within the projects of the principal."""
Summary = Callable[[Channel], Awaitable[dict[str, Any]]]
"""Counts and open decisions, approvals and conflicts of a project, a user or the system."""


async def no_client_ids(client_id: str, principal: Principal) -> str | None:
    del client_id, principal
    return None


async def no_summary(channel: Channel) -> dict[str, Any]:
    return {"channel": channel.topic}


class StoreDirectory:
    """See `Directory`. Jobs and hosts are looked up by a directory of the fleet."""

    def __init__(
        self,
        tasks: Tasks,
        queues: Queues,
        nodes: Nodes,
        *,
        task_by_client_id: TaskByClientId = no_client_ids,
        summary: Summary = no_summary,
    ) -> None:
        self._tasks = tasks
        self._queues = queues
        self._nodes = nodes
        self._task_by_client_id = task_by_client_id
        self._summary = summary

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
                project = getattr(node, "project", "") or DEFAULT_PROJECT
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
        self, channel: Channel, found: ChannelObject
    ) -> AsyncIterator[dict[str, Any]]:
        name = found.topic.partition(":")[2]
        match channel.kind:
            case ChannelKind.TASK:
                task = await self._tasks.look_up(name)
                if task is not None:
                    yield views.task(task)
            case ChannelKind.QUEUE:
                queue = await self._queue(name)
                if queue is not None:
                    yield views.queue(queue)
            case ChannelKind.NODE:
                node = await self._node(name)
                if node is not None:
                    yield {**views.node(node), "held": await self._held(name)}
            case _:
                yield await self._summary(channel)

    async def _held(self, node: str) -> list[dict[str, Any]]:
        """The tasks that a node runs."""
        tasks = await self._tasks.find(status="running", limit=PAGE_MAX)
        return [{"task_id": task.id, "fence": task.fence} for task in tasks if task.node == node]

    async def _queue(self, name: str) -> Any:
        try:
            return await self._queues.get(name)
        except NotFound:
            return None

    async def _node(self, node_id: str) -> Any:
        nodes = await self._nodes.list(live=False)
        return next((node for node in nodes if node.id == node_id), None)


def _project(channel: Channel) -> ChannelObject | None:
    try:
        project = (
            channel.name if channel.name == ALL_PROJECTS else check_project("project", channel.name)
        )
    except InvalidInput:
        return None
    return ChannelObject(project, channel.topic)
