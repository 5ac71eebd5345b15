"""Use cases of tasks: look at them, wait for them, cancel, pause, resume and edit them.

Promises: a change is recorded with who and why (`By`). A task that does not exist is NotFound; a change that
its status does not allow is IllegalTransition; another version than expected is Conflict.
"""

from __future__ import annotations

from typing import Final

from holdfast import errors
from holdfast.bus.port import FEED, WORK
from holdfast.core.check import (
    PAGE_MAX,
    check_choice,
    check_flag,
    check_name,
    check_number,
    check_page,
)
from holdfast.core.command import Abort, Edit, Instruction, OperatorCommand, Pause, Resume
from holdfast.core.decide import Refusal
from holdfast.core.event import Event
from holdfast.core.submit import encode_payload
from holdfast.core.task import Status, Task
from holdfast.queue.by import By
from holdfast.queue.session import Backend, Sessions
from holdfast.queue.why import Why, explain
from holdfast.store.rows import Dependency

REFUSALS: Final[dict[str, type[errors.HoldfastError]]] = {
    "not-found": errors.NotFound,
    "illegal-transition": errors.IllegalTransition,
    "lease-lost": errors.LeaseLost,
    "invalid-input": errors.InvalidInput,
    "payload-too-large": errors.PayloadTooLarge,
}
"""By the code of the core's refusal; any other is a Conflict."""


class Tasks:
    """What may be asked of tasks."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    # -- looking -----------------------------------------------------------------------------------

    async def look_up(self, task_id: str) -> Task | None:
        """The task, or None when there is none of that id."""
        check_name("task_id", task_id)
        backend = await self._sessions.open()
        return (await backend.store.get([task_id])).get(task_id)

    async def get(self, task_id: str) -> Task:
        """The task; NotFound when there is none of that id."""
        task = await self.look_up(task_id)
        if task is None:
            raise errors.NotFound(f"task {task_id} does not exist: it may have been pruned")
        return task

    async def wait(self, task_id: str, timeout: float | None = None) -> Task:
        """The task once it has ended, well or badly; WaitTimeout after `timeout` seconds."""
        check_name("task_id", task_id)
        if timeout is not None:
            check_number("timeout", timeout)
        session = await self._sessions.opened()
        return await session.waiters.wait(task_id, timeout)

    async def find(
        self,
        *,
        status: Status | str | None = None,
        type: str | None = None,
        queue: str | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[Task]:
        """Newest first, a page at a time; `after` is the last id of the page before."""
        backend = await self._sessions.open()
        return await backend.store.find(
            status=None if status is None else check_choice("status", status, Status),
            type=_name("type", type),
            queue=_name("queue", queue),
            prefix=_name("prefix", prefix),
            after=_name("after", after),
            limit=check_page(limit),
        )

    async def parents(self, task_id: str) -> list[Dependency]:
        """The tasks that this one depends on."""
        backend = await self._with_task(task_id)
        return await backend.store.reads.dependencies(task_id)

    async def dependents(self, task_id: str, *, limit: int = PAGE_MAX) -> list[str]:
        """The tasks that depend on this one."""
        backend = await self._with_task(task_id)
        return await backend.store.reads.dependents(task_id, check_page(limit))

    async def history(self, task_id: str) -> list[Event]:
        """What happened to the task, oldest first, as far as events are kept."""
        backend = await self._with_task(task_id)
        return await backend.store.history(task_id)

    async def why(self, task_id: str) -> Why:
        """Why the task is not running."""
        check_name("task_id", task_id)
        return await explain((await self._sessions.open()).store, task_id)

    async def _with_task(self, task_id: str) -> Backend:
        """The store, if it has the task."""
        await self.get(task_id)
        return await self._sessions.open()

    # -- changing ----------------------------------------------------------------------------------

    async def cancel(self, task_id: str, by: By) -> Task:
        """Aborts the task, whatever it is doing; a running handler is cancelled."""
        return await self.apply(task_id, Abort(by.actor, by.reason), by)

    async def pause(self, task_id: str, by: By) -> Task:
        """Stops the task until it is resumed; no attempt is spent."""
        return await self.apply(task_id, Pause(by.actor, by.reason), by)

    async def resume(self, task_id: str, by: By) -> Task:
        """Lets a paused task go on, from the queue."""
        return await self.apply(task_id, Resume(by.actor), by)

    async def edit(self, task_id: str, payload: object, by: By, *, merge: bool = False) -> Task:
        """Gives a waiting or dead task another payload: this one, or with `merge` the one it has with these
        fields changed."""
        check_flag("merge", merge)
        return await self.apply(task_id, Edit(by.actor, encode_payload(payload), merge), by)

    async def apply(self, task_id: str, command: OperatorCommand, by: By) -> Task:
        """Sends one command; the task as it is afterwards, or the core's refusal as an error."""
        check_name("task_id", task_id)
        backend = await self._sessions.open()
        instruction = Instruction(task_id, command, version=by.expected_version)
        ruling = (await backend.store.apply([instruction]))[0]
        if isinstance(ruling, Refusal):
            raise REFUSALS.get(ruling.code, errors.Conflict)(ruling.message)
        backend.bus.publish(WORK)
        backend.bus.publish(FEED)
        self._sessions.here.ended([ruling.after])
        # A runner here loses its lease at once; one elsewhere with its next heartbeat.
        self._sessions.call_engine(lambda engine: engine.heartbeat.wake())
        return ruling.after


def _name(field: str, given: str | None) -> str | None:
    return None if given is None else check_name(field, given)
