"""Use cases of tasks: read, wait, cancel, pause, resume, edit.

Promises: a change is recorded with its actor and reason (`By`). Raises NotFound if the task does not exist,
IllegalTransition if its status does not allow the change, and Conflict if it has another version than
expected. A task is named by its id, or by the name that a node gave it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final, TypeVar

from holdfast import errors
from holdfast.bus.port import FEED, WORK, of_node
from holdfast.core import codec, edits
from holdfast.core.affinity import Affinity
from holdfast.core.check import (
    PAGE_MAX,
    check_choice,
    check_flag,
    check_name,
    check_number,
    check_page,
    check_text,
)
from holdfast.core.command import Abort, Edit, Instruction, OperatorCommand, Pause, Replay, Resume
from holdfast.core.decide import Refusal
from holdfast.core.event import Event
from holdfast.core.search import Query, narrowed, parse
from holdfast.core.search.parse import CHARS_MAX
from holdfast.core.submit import encode_payload
from holdfast.core.task import Status, Task
from holdfast.queue.by import By
from holdfast.queue.details import TaskDetails
from holdfast.queue.session import Resources, Sessions
from holdfast.queue.settings import SettingsInForce
from holdfast.queue.types import KnownTypes
from holdfast.queue.why import Why, explain
from holdfast.store.rows import Dependency
from holdfast.store.search import After, search
from holdfast.store.store import Store

T = TypeVar("T")

REFUSALS: Final[dict[str, type[errors.HoldfastError]]] = {
    "not-found": errors.NotFound,
    "illegal-transition": errors.IllegalTransition,
    "version-conflict": errors.VersionConflict,
    "lease-lost": errors.LeaseLost,
    "invalid-input": errors.InvalidInput,
    "payload-too-large": errors.PayloadTooLarge,
    "not-locked": errors.NotLocked,
    "decision-needed": errors.DecisionNeeded,
}
"""The error class for each refusal code of the core. Other codes raise Conflict."""


def by_id(q: str) -> Query:
    """A query for a list that is sorted by id. InvalidInput if it sorts."""
    query = parse(q)
    if query.sort is not None:
        raise errors.InvalidInput("q has a sort: this list is sorted by id, the newest first")
    return query


class Tasks:
    """The use cases of tasks."""

    def __init__(self, sessions: Sessions, types: KnownTypes, settings: SettingsInForce) -> None:
        self._sessions = sessions
        self._types = types
        self._settings = settings

    # -- reading -----------------------------------------------------------------------------------

    async def look_up(self, task_id: str, projects: Collection[str] | None = None) -> Task | None:
        """Returns the task of this id, or of this name that a node gave, within the projects (None: all).
        None if it does not exist. Raises AmbiguousId if several tasks have the name."""
        check_name("task_id", task_id)
        resources = await self._sessions.open()
        return (await resources.store.reads.named([task_id], projects)).get(task_id)

    async def get(self, task_id: str) -> Task:
        """Returns the task. Raises NotFound if it does not exist."""
        task = await self.look_up(task_id)
        if task is None:
            raise errors.NotFound(f"task {task_id} does not exist: it may have been pruned")
        return task

    async def wait(self, task_id: str, timeout: float | None = None) -> Task:
        """Waits until the task has ended, with or without success, and returns it. Raises WaitTimeout after
        `timeout` seconds."""
        check_name("task_id", task_id)
        if timeout is not None:
            check_number("timeout", timeout)
        session = await self._sessions.opened()
        return await self.by_name(task_id, lambda found: session.waiters.wait(found, timeout))

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
        """Returns one page of the tasks that match, newest first. `q`: a query in the grammar of lists.
        `after`: the last id of the previous page."""
        resources = await self._sessions.open()
        chosen = None if status is None else check_choice("status", status, Status)
        names = {
            "type": _name("type", type),
            "queue": _name("queue", queue),
            "project": _name("project", project),
        }
        prefix, after, limit = _name("prefix", prefix), _name("after", after), check_page(limit)
        if not check_text("q", q, most=CHARS_MAX):
            return await resources.store.reads.find(
                status=chosen, **names, prefix=prefix, after=after, limit=limit
            )
        query = narrowed(by_id(q), {"status": chosen, **names}, prefix=prefix)
        last = None if after is None else After(0.0, after)
        page = await search(resources.store, query, after=last, limit=limit)
        tasks = await resources.store.reads.get([row.id for row in page.rows])
        return list(tasks.values())

    async def parents(self, task_id: str) -> list[Dependency]:
        """Returns the dependencies of the task."""
        task, resources = await self._with_task(task_id)
        return await resources.store.reads.dependencies(task.id)

    async def dependents(self, task_id: str, *, limit: int = PAGE_MAX) -> list[str]:
        """Returns the ids of the tasks that depend on this one."""
        task, resources = await self._with_task(task_id)
        return await resources.store.reads.dependents(task.id, check_page(limit))

    async def details(self, task_id: str) -> TaskDetails:
        """Returns what the task has beside its row."""
        task, resources = await self._with_task(task_id)
        reads = resources.store.reads
        return TaskDetails(
            tuple(await reads.dependencies(task.id)),
            tuple(await reads.dependents(task.id, PAGE_MAX)),
            await reads.client_id(task.id),
            await reads.metrics(task.id),
        )

    async def history(self, task_id: str) -> list[Event]:
        """Returns the stored events of the task, oldest first."""
        task, resources = await self._with_task(task_id)
        return await resources.store.feed.history(task.id)

    async def why(self, task_id: str) -> Why:
        """Explains why the task is not running."""
        check_name("task_id", task_id)
        store = (await self._sessions.open()).store
        return await self.by_name(task_id, lambda found: explain(store, found))

    async def by_name(self, task_id: str, act: Callable[[str], Awaitable[T]]) -> T:
        """Does something with a task. The name is resolved only if no task has this id: most callers give
        ids."""
        try:
            return await act(task_id)
        except errors.NotFound:
            task = await self.look_up(task_id)
            if task is None or task.id == task_id:
                raise
            return await act(task.id)

    async def _with_task(self, task_id: str) -> tuple[Task, Resources]:
        """Returns the task and the resources. Raises NotFound if the task does not exist."""
        return await self.get(task_id), await self._sessions.open()

    # -- changing ----------------------------------------------------------------------------------

    async def cancel(self, task_id: str, by: By) -> Task:
        """Aborts the task. A running handler is cancelled."""
        return await self.apply(task_id, Abort(by.actor, by.reason), by)

    async def cancel_task(self, task_id: str, *, actor: str, reason: str) -> Task:
        """As `cancel`, for the handle of a task."""
        return await self.cancel(task_id, By(actor, reason))

    async def pause(self, task_id: str, by: By) -> Task:
        """Stops the running task until it is resumed. The interrupted attempt does not count."""
        return await self.apply(task_id, Pause(by.actor, by.reason), by)

    async def resume(self, task_id: str, by: By) -> Task:
        """Returns a paused task to the queue."""

        async def act(id: str) -> Task:
            return await self._apply(id, Resume(by.actor, by.reason, await self.affinity(id)), by)

        return await self.by_name(check_name("task_id", task_id), act)

    async def affinity(self, task_id: str) -> Affinity | None:
        """Returns the preference of a paused task for the node that ran it."""
        check_name("task_id", task_id)
        reads = (await self._sessions.open()).store.reads
        return await reads.affinity([task_id], self._settings.current.affinity_seconds)

    async def edit(self, task_id: str, payload: object, by: By, *, merge: bool = False) -> Task:
        """Replaces the payload of a waiting or dead task. With `merge`, replaces only these fields of it."""
        check_flag("merge", merge)
        command = Edit(by.actor, encode_payload(payload), merge, reason=by.reason)
        return await self.apply(task_id, command, by)

    async def apply(self, task_id: str, command: OperatorCommand, by: By) -> Task:
        """Applies one command and returns the changed task. Raises an error for a refusal of the core."""
        check_name("task_id", task_id)
        return await self.by_name(task_id, lambda found: self._apply(found, command, by))

    async def _apply(self, task_id: str, command: OperatorCommand, by: By) -> Task:
        resources = await self._sessions.open()
        if isinstance(command, Edit | Replay) and edits.has_payload(command):
            await self._check_payload(resources.store, task_id, command)
        instruction = Instruction(task_id, command, version=by.expected_version)
        ruling = (await resources.store.apply([instruction], beside=by.beside))[0]
        if isinstance(ruling, Refusal):
            raise REFUSALS.get(ruling.code, errors.Conflict)(ruling.message)
        if ruling.after.assigned_to is not None:
            resources.bus.publish(of_node(ruling.after.assigned_to))
        resources.bus.publish(WORK)
        resources.bus.publish(FEED)
        self._sessions.here.ended([ruling.after])
        # A runner in this process notices the change at once, one elsewhere with its next heartbeat.
        self._sessions.call_engine(lambda engine: engine.heartbeat.wake())
        return ruling.after

    async def _check_payload(self, store: Store, task_id: str, command: Edit | Replay) -> None:
        """InvalidInput for a payload that the type does not take, as at an enqueue: the next run would make a
        dead letter of the task. A type that no node has registered takes any."""
        task = (await store.reads.get([task_id])).get(task_id)
        if task is None:
            return
        payload_json = edits.payload_after(task.payload_json, command)
        if payload_json is None:
            return  # The core refuses it.
        with suppress(errors.UnknownType):
            await self._types.checked(store, task.type, codec.loads(payload_json))


def _name(field: str, given: str | None) -> str | None:
    return None if given is None else check_name(field, given)
