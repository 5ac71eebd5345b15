"""Use cases of dead letters through a gateway. The same calls as `queue.dead_letters.DeadLetters`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from holdfast.client.calls import Calls, path_of
from holdfast.core.check import check_page
from holdfast.core.submit import encode_payload
from holdfast.core.task import Status, Task
from holdfast.errors import IllegalTransition
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.dead_letters import DeadFilter, DeadGroup
from holdfast.remote.tasks import RemoteTasks

PAGE: Final = 100
"""Whole tasks that one request gets."""


class RemoteDeadLetters:
    """The use cases of dead letters."""

    def __init__(self, http: Calls, tasks: RemoteTasks) -> None:
        self._http = http
        self._tasks = tasks

    async def page(self, which: DeadFilter, *, limit: int = 100, offset: int = 0) -> list[Task]:
        """One page, the latest first."""
        return (await self._read(which, None, check_page(limit) + offset))[offset:]

    async def page_after(
        self, which: DeadFilter, last: Task | None, *, limit: int = 100
    ) -> list[Task]:
        """The dead letters that died before `last`, the latest first."""
        behind = None if last is None else last.id
        return await self._read(which, behind, check_page(limit))

    async def _read(self, which: DeadFilter, behind: str | None, limit: int) -> list[Task]:
        tasks: list[Task] = []
        while len(tasks) < limit:
            size = min(limit - len(tasks), PAGE)
            query = {**_fields(which), "behind": behind, "limit": size}
            path = path_of("dead-letters", "latest")
            items = (await self._http.call("GET", path, query=query)).body["items"]
            tasks += [views.read_task(item) for item in items]
            if len(items) < size:
                break
            behind = tasks[-1].id
        return tasks

    async def get(self, task_id: str) -> Task:
        """A dead letter. Raises IllegalTransition if the task is not one."""
        task = await self._tasks.get(task_id)
        if task.status is not Status.FAILED:
            raise IllegalTransition(f"task {task.id} is {task.status}: it is not a dead letter")
        return task

    async def groups(self, *, limit: int = 50) -> list[DeadGroup]:
        query = {"limit": limit}
        body = (await self._http.call("GET", path_of("dead-letters", "groups"), query=query)).body
        return [views.read_dead_group(item) for item in body["items"]]

    async def replay(
        self,
        task_id: str,
        by: By,
        *,
        payload: object = UNSET,
        patch: Mapping[str, object] | None = None,
        delay: float = 0.0,
    ) -> Task:
        """Enqueues a dead letter again with new attempts, and with `payload` if given, or with its own after
        a merge patch."""
        body: dict[str, Any] = {"delay_seconds": delay}
        if patch is not None:
            body["patch"] = patch
        if payload is not UNSET:
            body["payload"] = msgspec.Raw(encode_payload(payload).encode())
        return await self._change("replay", task_id, by, body)

    async def discard(self, task_id: str, by: By) -> Task:
        """Aborts a dead letter, which is final."""
        return await self._change("discard", task_id, by, {})

    async def replay_all(
        self,
        which: DeadFilter,
        by: By,
        *,
        rate: float | None = None,
        limit: int | None = None,
        patch: Mapping[str, object] | None = None,
        dry_run: bool = False,
    ) -> int:
        """Replays all dead letters that match, at most `rate` per second. Returns how many. `patch`: a merge
        patch of their payloads."""
        more: dict[str, Any] = {"rate": rate, "limit": limit, "dry_run": dry_run}
        if patch is not None:
            more["patch"] = patch
        return await self._change_all("replay", which, by, more)

    async def discard_all(
        self, which: DeadFilter, by: By, *, limit: int | None = None, dry_run: bool = False
    ) -> int:
        """Aborts all dead letters that match, which is final. Returns how many."""
        more = {"limit": limit, "dry_run": dry_run}
        return await self._change_all("discard", which, by, more)

    async def _change(self, verb: str, task_id: str, by: By, body: dict[str, Any]) -> Task:
        sent = {**body, "reason": by.reason, "expected_version": by.expected_version}
        path = path_of("dead-letters", task_id, verb)
        return views.read_task((await self._http.call("POST", path, sent)).body)

    async def _change_all(self, verb: str, which: DeadFilter, by: By, more: dict[str, Any]) -> int:
        by.of_unversioned("a group of dead letters")
        body = {**_fields(which), **more, "reason": by.reason}
        answer = await self._http.call("POST", path_of("dead-letters", verb), body)
        return int(answer.body["count"])


def _fields(which: DeadFilter) -> dict[str, Any]:
    return {"type": which.type, "queue": which.queue, "fingerprint": which.fingerprint}
