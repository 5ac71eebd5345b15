"""Intervening: an operator's commands to tasks and queues. Each is recorded with who and why."""

from __future__ import annotations

from typing import ClassVar

from holdfast import errors
from holdfast.bus.port import FEED, WORK
from holdfast.core.check import check_flag, check_id, check_name, check_text, check_whole
from holdfast.core.command import Abort, Edit, Instruction, OperatorCommand, Pause, Resume
from holdfast.core.decide import Refusal
from holdfast.core.submit import encode_payload
from holdfast.core.task import Task
from holdfast.queue.backend import Backend
from holdfast.queue.places import Places
from holdfast.queue.settings import WORKERS_MAX


class Operate(Places):
    """The part of a queue that changes what exists."""

    _REFUSALS: ClassVar[dict[str, type[errors.HoldfastError]]] = {
        "not-found": errors.NotFound,
        "illegal-transition": errors.IllegalTransition,
        "lease-lost": errors.LeaseLost,
        "invalid-input": errors.InvalidInput,
        "payload-too-large": errors.PayloadTooLarge,
    }

    async def cancel(self, task_id: str, *, actor: str = "api", reason: str = "") -> Task:
        """Aborts a task, whatever it is doing; a running handler is cancelled. IllegalTransition when it
        has ended, NotFound when there is none."""
        return await self._order(task_id, Abort(actor, reason))

    async def pause_task(self, task_id: str, *, actor: str = "api", reason: str = "") -> Task:
        """Stops a running task until it is resumed; no attempt is spent."""
        return await self._order(task_id, Pause(actor, reason))

    async def resume_task(self, task_id: str, *, actor: str = "api") -> Task:
        """Lets a paused task go on, from the queue."""
        return await self._order(task_id, Resume(actor))

    async def edit_task(
        self, task_id: str, payload: object, *, merge: bool = False, actor: str = "api"
    ) -> Task:
        """Gives a waiting or dead task another payload: this one, or with `merge` the one it has with these
        fields changed. The event keeps what was replaced."""
        check_flag("merge", merge)
        return await self._order(task_id, Edit(actor, encode_payload(payload), merge))

    async def pause_queue(
        self, name: str = "default", *, actor: str = "api", reason: str = ""
    ) -> None:
        """Nothing of this queue is started anywhere until it is resumed; what runs goes on."""
        check_text("reason", reason)
        backend = await self._known_queue(name, actor)
        await backend.store.upkeep.pause_queue(name, actor=actor, reason=reason)
        backend.bus.publish(FEED)

    async def resume_queue(self, name: str = "default", *, actor: str = "api") -> None:
        """Lets a paused queue go on."""
        backend = await self._known_queue(name, actor)
        await backend.store.upkeep.resume_queue(name, actor=actor)
        backend.bus.publish(WORK)
        backend.bus.publish(FEED)

    async def scale_workers(self, count: int) -> int:
        """Adds workers to those that this process has, or takes some away (a busy one leaves when its task
        ends); the number that it comes to. Added workers stay until they are taken away again; taking away
        what was added restores min_workers and max_workers."""
        check_whole("count", count, least=-WORKERS_MAX, most=WORKERS_MAX)
        return self._engine_here().resize(count)

    async def _known_queue(self, name: str, actor: str) -> Backend:
        """The store, if it or this process knows the queue: a name with a slip of the pen is refused."""
        check_id("queue", name)
        check_name("actor", actor)
        known = {
            "default",
            *self._handlers.queues(),
            *(view.name for view in await self.get_queues()),
        }
        if name not in known:
            names = ", ".join(sorted(known)[:10]) or "none yet"
            raise errors.NotFound(f"there is no queue '{name}' (known: {names}): check the name")
        return await self._open()

    async def _order(self, task_id: str, command: OperatorCommand) -> Task:
        """Sends one command and raises what the core refuses."""
        check_name("task_id", task_id)
        check_name("actor", command.actor)
        check_text("reason", getattr(command, "reason", ""))
        backend = await self._open()
        ruling = (await backend.store.apply([Instruction(task_id, command)]))[0]
        if isinstance(ruling, Refusal):
            raise self._REFUSALS.get(ruling.code, errors.Conflict)(ruling.message)
        backend.bus.publish(WORK)
        backend.bus.publish(FEED)
        self._ended([ruling.after])
        # A runner here hears at once that its lease is gone; others with their next renewal.
        self._tell_engine(lambda engine: engine.heartbeat.wake())
        return ruling.after
