"""Use cases of tasks through a gateway. The same calls as `queue.tasks.Tasks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.client.calls import Calls, path_of
from holdfast.core.check import PAGE_MAX, check_name, check_number, check_page
from holdfast.core.event import Event
from holdfast.core.intervention import NO_REASON, InterventionType
from holdfast.core.intervention_args import intervention_request
from holdfast.core.search import Query, narrowed, show
from holdfast.core.search.tree import Sort
from holdfast.core.submit import encode_payload
from holdfast.core.task import Status, Task
from holdfast.errors import NotFound
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.details import TaskDetails
from holdfast.queue.tasks import by_id
from holdfast.queue.why import Why
from holdfast.remote.operators import RemoteInterventions

if TYPE_CHECKING:
    from holdfast.remote.waiters import RemoteWaiters

BODIES_MAX: Final = 100
"""Whole tasks that one request gets."""


class RemoteTasks:
    """The use cases of tasks."""

    def __init__(
        self,
        http: Calls,
        waiters: Callable[[], RemoteWaiters],
        interventions: RemoteInterventions,
    ) -> None:
        self._http = http
        self._interventions = interventions
        self._waiters = waiters

    async def look_up(self, task_id: str) -> Task | None:
        """Returns the task, or None if it does not exist."""
        check_name("task_id", task_id)
        try:
            return views.read_task((await self._http.call("GET", path_of("tasks", task_id))).body)
        except NotFound:
            return None

    async def get(self, task_id: str) -> Task:
        """Returns the task. Raises NotFound if it does not exist."""
        task = await self.look_up(task_id)
        if task is None:
            raise NotFound(f"task {task_id} does not exist: it may have been pruned")
        return task

    async def wait(self, task_id: str, timeout: float | None = None) -> Task:
        """Waits until the task has ended, with or without success, and returns it."""
        check_name("task_id", task_id)
        if timeout is not None:
            check_number("timeout", timeout)
        return await self._waiters().wait(task_id, timeout)

    async def find(
        self,
        *,
        status: Status | str | None = None,
        type: str | None = None,
        queue: str | None = None,
        project: str | None = None,
        prefix: str | None = None,
        q: str = "",
        after: str | None = None,
        limit: int = 50,
    ) -> list[Task]:
        """One page of the tasks that match, newest first. Each is read with its bodies."""
        terms = {"status": status, "type": type, "queue": queue, "project": project}
        chosen = narrowed(by_id(q), terms, prefix=prefix)
        query = {"q": show(Query(chosen.clause, Sort("created", descending=True))), "bodies": True}
        tasks: list[Task] = []
        while len(tasks) < check_page(limit):
            size = min(limit - len(tasks), BODIES_MAX)
            page = {**query, "behind": after, "limit": size}
            body = (await self._http.call("GET", path_of("tasks"), query=page)).body
            tasks += [views.read_task(item) for item in body["items"]]
            if body["next"] is None or not body["items"]:
                break
            after = tasks[-1].id
        return tasks

    async def dependents(self, task_id: str, *, limit: int = PAGE_MAX) -> list[str]:
        """The ids of the tasks that depend on this one."""
        body = (await self._http.call("GET", path_of("tasks", task_id))).body
        return list(body["dependents"])[: check_page(limit)]

    async def details(self, task_id: str) -> TaskDetails:
        """What the task has beside its row."""
        return views.read_details((await self._http.call("GET", path_of("tasks", task_id))).body)

    async def history(self, task_id: str) -> list[Event]:
        """The stored events of the task, oldest first."""
        body = (await self._http.call("GET", path_of("tasks", task_id, "history"))).body
        return [views.read_event(item) for item in body["items"]]

    async def why(self, task_id: str) -> Why:
        """Explains why the task is not running."""
        body = (await self._http.call("GET", path_of("tasks", task_id, "why"))).body
        return views.read_why(body)

    # -- changing ----------------------------------------------------------------------------------

    async def cancel(self, task_id: str, by: By) -> Task:
        """Aborts the task. A running handler is cancelled."""
        return await self._intervene(task_id, InterventionType.ABORT, by)

    async def cancel_task(self, task_id: str, *, actor: str, reason: str) -> Task:
        """As `cancel`, for the handle of a task. The actor is the principal of the token."""
        return await self.cancel(task_id, By(actor, reason))

    async def pause(self, task_id: str, by: By) -> Task:
        return await self._intervene(task_id, InterventionType.PAUSE, by)

    async def resume(self, task_id: str, by: By) -> Task:
        return await self._intervene(task_id, InterventionType.RESUME, by)

    async def edit(
        self,
        task_id: str,
        payload: object,
        by: By,
        *,
        merge: bool = False,
        metadata: dict[str, Any] | None = None,
        tags: dict[str, list[str]] | None = None,
    ) -> Task:
        """Replaces the payload of a waiting or dead task. With `merge`, replaces only these fields. UNSET
        leaves it. `metadata`: fields to change. `tags`: those to `add` and to `remove`."""
        body: dict[str, Any] = {"reason": by.reason, "expected_version": by.expected_version}
        if payload is not msgspec.UNSET:
            body["payload"] = msgspec.Raw(encode_payload(payload).encode())
            body["payload_mode"] = "fields" if merge else "whole"
        if metadata is not None:
            body["metadata"] = metadata
        if tags is not None:
            body["tags"] = tags
        return views.read_task(
            (await self._http.call("PATCH", path_of("tasks", task_id), body)).body
        )

    async def _intervene(self, task_id: str, type: InterventionType, by: By) -> Task:
        """Changes one task. The gateway sends the change to its runner at once. The actor is the principal of
        the token."""
        request = intervention_request(type, by.reason or NO_REASON)
        return (await self._interventions.issue(task_id, request, by)).task
