"""Use cases of task groups through a gateway. The same calls as `queue.groups.Groups`."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.client.calls import Calls, path_of
from holdfast.core.check import check_name, check_number
from holdfast.core.group import GroupProgress
from holdfast.core.task import Task
from holdfast.engine.group_handle import GroupHandle
from holdfast.engine.handlers import Handlers
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.groups import timed_out

WAIT_SECONDS: Final = 20.0
"""How long one request waits."""


class RemoteGroups:
    """The use cases of task groups."""

    def __init__(self, http: Calls, handlers: Handlers) -> None:
        self._http = http
        self._handlers = handlers

    async def get(self, group_id: str) -> GroupHandle[Any]:
        """Returns the group of this id."""
        await self.progress(group_id)
        ids = tuple(task.id for task in await self.tasks(group_id))
        return GroupHandle(group_id, ids, self, self._handlers.result_of)

    async def progress(self, group_id: str, *, wait_seconds: float = 0.0) -> GroupProgress:
        """Returns how far the group is. `wait_seconds`: waits for its end, at most so long."""
        path = path_of("task-groups", check_name("group_id", group_id))
        query = {"wait_seconds": wait_seconds} if wait_seconds else None
        return views.read_task_group((await self._http.call("GET", path, query=query)).body)

    async def tasks(self, group_id: str) -> list[Task]:
        """Returns the tasks that exist, in their order."""
        tasks: list[Task] = []
        after: str | None = None
        path = path_of("task-groups", check_name("group_id", group_id), "tasks")
        while True:
            query = {} if after is None else {"after": after}
            body = (await self._http.call("GET", path, query=query)).body
            tasks += [views.read_task(item) for item in body["items"]]
            after = body["next"]
            if after is None:
                return tasks

    async def wait(self, group_id: str, timeout: float | None = None) -> GroupProgress:
        """Waits until all tasks have ended."""
        if timeout is not None:
            check_number("timeout", timeout)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    progress = await self.progress(group_id, wait_seconds=WAIT_SECONDS)
                    if progress.is_ended:
                        return progress
        except TimeoutError:
            raise timed_out(await self.progress(group_id), timeout or 0.0) from None

    async def cancel_rest(self, group_id: str, *, actor: str, reason: str) -> int:
        """Aborts the tasks that have not ended. Returns how many. The actor is the principal of the token."""
        return await self.cancel(group_id, By(actor, reason))

    async def cancel(self, group_id: str, by: By) -> int:
        """As `cancel_rest`."""
        path = path_of("task-groups", check_name("group_id", group_id), "cancel")
        return int((await self._http.call("POST", path, {"reason": by.reason})).body["count"])
