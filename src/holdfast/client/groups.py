"""The parts of a client: queues, dead letters, operations, nodes, locks, schedules and decisions.
`scripts/client_fronts.py` writes their blocking forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from holdfast.client.admin_models import (
    Backfilled,
    DeadGroup,
    LockView,
    NodeView,
    OperationView,
    QueueView,
    ScheduleRun,
    ScheduleView,
)
from holdfast.client.api import Api, Rows, given
from holdfast.client.models import (
    DecisionView,
    Json,
    NewTask,
    TaskGroupRef,
    TaskGroupView,
    TaskRow,
    TaskView,
)
from holdfast.core.seconds import in_seconds

Action = Literal["replay", "discard", "abort", "pause", "resume", "reassign"]


SUBMIT_NAMES: Final = {
    "delay": "delay_seconds",
    "timeout": "timeout_seconds",
    "progress_timeout": "progress_timeout_seconds",
}
"""Options of a queue, and their names in the API."""


def new_task(fields: dict[str, object], project: str | None) -> dict[str, object]:
    """A task to enqueue, with its fields as the API names them."""
    body = {SUBMIT_NAMES.get(name, name): in_seconds(value) for name, value in fields.items()}
    return body if project is None else {"project": project, **body}


class Group:
    """A part of a client."""

    def __init__(self, api: Api) -> None:
        self._api = api


class Queues(Group):
    """Queues by name."""

    def list(self) -> Rows[QueueView]:
        """All of them."""
        return self._api.unpaged(QueueView, "queues")

    async def get(self, name: str) -> QueueView:
        """One queue with its numbers of tasks."""
        return await self._api.get(QueueView, "queues", name)

    async def pause(self, name: str, *, reason: str = "") -> QueueView:
        """Starts no task of the queue until it is resumed."""
        return await self._api.send(
            QueueView, "POST", "queues", name, "pause", body={"reason": reason}
        )

    async def resume(self, name: str, *, reason: str = "") -> QueueView:
        """Starts tasks of the queue again."""
        return await self._api.send(
            QueueView, "POST", "queues", name, "resume", body={"reason": reason}
        )


class DeadLetters(Group):
    """Tasks that failed for good."""

    def groups(self, *, limit: int = 50) -> Rows[DeadGroup]:
        """Dead letters by cause, the largest group first."""
        return self._api.unpaged(DeadGroup, "dead-letters", "groups", limit=limit)

    def list(self, q: str = "", *, limit: int | None = None) -> Rows[TaskRow]:
        """The dead letters that match, the latest first."""
        return self._api.rows(TaskRow, "dead-letters", limit=limit, q=q)

    async def replay(
        self,
        task_id: str,
        *,
        payload: Json = msgspec.UNSET,
        patch: Mapping[str, Json] | None = None,
        delay: float = 0.0,
        reason: str = "",
        expected_version: int | None = None,
    ) -> TaskView:
        """Gives one dead letter new attempts, with another payload if one is given, or with its own after a
        merge patch. Many at once: `operations.run("replay", q=…, args={"patch": {…}})`."""
        body = given(expected_version=expected_version, patch=patch)
        body |= {"delay_seconds": delay, "reason": reason}
        if payload is not msgspec.UNSET:
            body["payload"] = payload
        return await self._api.send(TaskView, "POST", "dead-letters", task_id, "replay", body=body)

    async def discard(
        self, task_id: str, *, reason: str = "", expected_version: int | None = None
    ) -> TaskView:
        """Ends one dead letter for good."""
        body = given(expected_version=expected_version) | {"reason": reason}
        return await self._api.send(TaskView, "POST", "dead-letters", task_id, "discard", body=body)


class Operations(Group):
    """Changes of many tasks at once."""

    async def run(
        self,
        action: Action,
        *,
        q: str | None = None,
        ids: Sequence[str] | None = None,
        reason: str = "",
        dry_run: bool = False,
        expect_count: int | None = None,
        args: dict[str, Any] | None = None,
        rate_per_second: float | None = None,
        canary: int | None = None,
        stop_on_fail_share: float | None = None,
    ) -> OperationView:
        """Begins to change the tasks of `ids`, or those that match `q`. It goes on when this returns: `get`
        says how far it is. A dry run has the `count`, how many are `eligible`, and why others are not."""
        body = given(
            action=action,
            q=q,
            reason=reason,
            expect_count=expect_count,
            args=args,
            rate_per_second=rate_per_second,
            canary=canary,
            stop_on_fail_share=stop_on_fail_share,
        )
        if ids is not None:
            body["ids"] = [*ids]
        if dry_run:
            body["dry_run"] = True
        return await self._api.send(OperationView, "POST", "operations", body=body)

    def list(self, *, limit: int | None = None) -> Rows[OperationView]:
        """The operations, the latest first."""
        return self._api.rows(OperationView, "operations", limit=limit)

    async def get(self, operation_id: str) -> OperationView:
        """One operation and how far it is."""
        return await self._api.get(OperationView, "operations", operation_id)

    async def stop(self, operation_id: str, *, reason: str = "") -> OperationView:
        """Changes no further task. What is changed stays."""
        body = given(reason=reason)
        return await self._api.send(
            OperationView, "POST", "operations", operation_id, "stop", body=body
        )

    async def resume(self, operation_id: str, *, reason: str = "") -> OperationView:
        """Goes on with the tasks that are left."""
        body = given(reason=reason)
        return await self._api.send(
            OperationView, "POST", "operations", operation_id, "resume", body=body
        )

    async def undo(
        self, operation_id: str, *, reason: str = "", dry_run: bool = False
    ) -> OperationView:
        """Begins to resume the tasks that a pause still holds, as another operation. A dry run has the
        `count`. IllegalTransition for another action: only a pause can be undone."""
        body = given(reason=reason, dry_run=dry_run or None)
        return await self._api.send(
            OperationView, "POST", "operations", operation_id, "undo", body=body
        )


class Nodes(Group):
    """Workers and plugins."""

    def list(self) -> Rows[NodeView]:
        """All of them."""
        return self._api.unpaged(NodeView, "nodes")

    async def get(self, node_id: str) -> NodeView:
        """One node."""
        return await self._api.get(NodeView, "nodes", node_id)

    async def cordon(self, node_id: str, *, reason: str = "") -> NodeView:
        """The node gets no new claims."""
        return await self._act(node_id, "cordon", reason)

    async def uncordon(self, node_id: str, *, reason: str = "") -> NodeView:
        """The node gets claims again."""
        return await self._act(node_id, "uncordon", reason)

    async def drain(self, node_id: str, *, reason: str = "") -> NodeView:
        """The node gets no new claims and ends what it runs."""
        return await self._act(node_id, "drain", reason)

    async def quarantine(self, node_id: str, *, reason: str = "") -> NodeView:
        """The node may read its own state only, until it is uncordoned."""
        return await self._act(node_id, "quarantine", reason)

    async def revoke(self, node_id: str, *, reason: str = "") -> NodeView:
        """Fences the node and ends its credential."""
        return await self._act(node_id, "revoke", reason)

    async def _act(self, node_id: str, act: str, reason: str) -> NodeView:
        return await self._api.send(
            NodeView, "POST", "nodes", node_id, act, body={"reason": reason}
        )


class LockViews(Group):
    """Named locks."""

    def list(self, *, limit: int | None = None) -> Rows[LockView]:
        """The locks that are held, by name."""
        return self._api.rows(LockView, "locks", limit=limit)

    async def get(self, resource: str) -> LockView:
        """One lock with its holder and waiters."""
        return await self._api.get(LockView, "locks", resource)

    async def revoke(self, resource: str, *, reason: str = "") -> dict[str, Any]:
        """Takes the lock from its holder. Returns the entry of its audit."""
        return await self._api.send(
            dict[str, Any], "POST", "locks", resource, "revoke", body={"reason": reason}
        )


class Schedules(Group):
    """Tasks that are enqueued at set times."""

    def list(self) -> Rows[ScheduleView]:
        """All of them."""
        return self._api.unpaged(ScheduleView, "schedules")

    async def get(self, name: str) -> ScheduleView:
        """One schedule."""
        return await self._api.get(ScheduleView, "schedules", name)

    async def put(
        self,
        name: str,
        spec: str,
        type: str,
        payload: Json = None,
        *,
        timezone: str = "UTC",
        queue: str | None = None,
        priority: str | int | None = None,
        reason: str = "",
    ) -> ScheduleView:
        """Adds the schedule, or changes it."""
        body = given(spec=spec, type=type, timezone=timezone, queue=queue, priority=priority)
        body |= {"payload": payload, "reason": reason}
        return await self._api.send(ScheduleView, "PUT", "schedules", name, body=body)

    async def remove(self, name: str) -> ScheduleView:
        """Removes the schedule. Tasks that it enqueued stay."""
        return await self._api.send(ScheduleView, "DELETE", "schedules", name)

    async def pause(self, name: str, *, reason: str = "") -> ScheduleView:
        """Enqueues no task until it is resumed."""
        body = {"reason": reason}
        return await self._api.send(ScheduleView, "POST", "schedules", name, "pause", body=body)

    async def resume(self, name: str, *, reason: str = "") -> ScheduleView:
        """Enqueues tasks again, from the next time on."""
        body = {"reason": reason}
        return await self._api.send(ScheduleView, "POST", "schedules", name, "resume", body=body)

    async def run(self, name: str, *, reason: str = "") -> TaskView:
        """Enqueues its task now. The schedule stays as it is."""
        body = {"reason": reason}
        ran = await self._api.send(ScheduleRun, "POST", "schedules", name, "run", body=body)
        return ran.task

    async def backfill(
        self, name: str, since: str, until: str | None = None, *, reason: str = ""
    ) -> Backfilled:
        """Enqueues a task for each of its times from `since` on and before `until` (now). A time that was
        backfilled before keeps its task."""
        body = given(since=since, until=until, reason=reason)
        return await self._api.send(Backfilled, "POST", "schedules", name, "backfill", body=body)


class Decisions(Group):
    """Questions of tasks to people."""

    def list(self, q: str = "state:open", *, limit: int | None = None) -> Rows[DecisionView]:
        """The decisions that match, the latest first; `q=""` for those of every state."""
        return self._api.rows(DecisionView, "decisions", limit=limit, q=q)

    async def get(self, decision_id: str) -> DecisionView:
        """One decision with what its task saved."""
        return await self._api.get(DecisionView, "decisions", decision_id)

    async def answer(
        self,
        decision_id: str,
        choice: Json,
        *,
        data: Json = None,
        reason: str = "",
        expected_version: int | None = None,
    ) -> DecisionView:
        """Answers it: `choice` is one of its options, or a value that fits its schema.
        AlreadyDecided when another answer, or the deadline, was first."""
        body = given(data=data, expected_version=expected_version)
        body |= {"choice": choice, "reason": reason}
        return await self._api.send(DecisionView, "POST", "decisions", decision_id, body=body)


class TaskGroups(Group):
    """Groups of tasks that were enqueued together."""

    def __init__(self, api: Api, project: str | None = None) -> None:
        super().__init__(api)
        self._project = project

    async def submit(self, tasks: Sequence[NewTask], *, id: str | None = None) -> TaskGroupRef:
        """Enqueues all tasks as a group, or none. With an `id` the call may be repeated."""
        body = given(id=id) | {"tasks": [new_task({**task}, self._project) for task in tasks]}
        return await self._api.send(TaskGroupRef, "POST", "task-groups", body=body)

    async def get(self, group_id: str, *, wait: float = 0.0) -> TaskGroupView:
        """How far a group is. `wait`: waits for the end of all its tasks, for at most this many seconds; a
        gateway answers after 30 s at the latest."""
        return await self._api.get(TaskGroupView, "task-groups", group_id, wait_seconds=wait)

    def tasks(self, group_id: str) -> Rows[TaskView]:
        """The tasks of a group with their results, in the order of the enqueue."""
        return self._api.unpaged(TaskView, "task-groups", group_id, "tasks")

    async def cancel(self, group_id: str, *, reason: str = "") -> int:
        """Aborts the tasks that have not ended. Returns how many."""
        body = {"reason": reason}
        answer = await self._api.call("POST", "task-groups", group_id, "cancel", body=body)
        return int(answer.body["count"])
