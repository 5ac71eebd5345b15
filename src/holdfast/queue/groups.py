"""Use cases of task groups: read, wait, cancel the rest.

Promises: a group is found by its id from any process. A cancel is recorded with its actor and reason, a task
at a time; one that ends meanwhile stays as it ended. Raises NotFound if the group does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

from holdfast.bus.port import FEED, WORK
from holdfast.core.check import check_name, check_number
from holdfast.core.command import Abort, Instruction
from holdfast.core.decide import Transition
from holdfast.core.group import GroupProgress
from holdfast.core.task import Task
from holdfast.engine.group_handle import GroupHandle
from holdfast.engine.handlers import Handlers
from holdfast.errors import NotFound, WaitTimeout
from holdfast.queue.by import By
from holdfast.queue.session import Sessions

CANCEL_BATCH: Final = 500
"""Tasks that one transaction aborts."""
READ_BATCH: Final = 500
"""Tasks that one statement reads."""
_ALL: Final = 2**31 - 1


class Groups:
    """The use cases of task groups."""

    def __init__(self, sessions: Sessions, handlers: Handlers) -> None:
        self._sessions = sessions
        self._handlers = handlers

    async def get(self, group_id: str) -> GroupHandle[Any]:
        """Returns the group of this id."""
        await self.progress(group_id)
        store = (await self._sessions.open()).store
        members = await store.groups.members(group_id)
        ids = tuple(task_id for _, task_id in members)
        return GroupHandle(group_id, ids, self, self._handlers.result_of)

    async def progress(
        self, group_id: str, projects: Collection[str] | None = None
    ) -> GroupProgress:
        """Returns how far the group is. `projects`: only groups of these; None for all."""
        check_name("group_id", group_id)
        store = (await self._sessions.open()).store
        found = await store.groups.progress(group_id)
        if found is None or (projects is not None and found.project not in projects):
            raise NotFound(f"task group {group_id} does not exist: its tasks may have been pruned")
        return found

    async def tasks(self, group_id: str, *, after: int = -1, limit: int = _ALL) -> list[Task]:
        """Returns the tasks behind a number, in their order."""
        store = (await self._sessions.open()).store
        ids = [task_id for _, task_id in await self.members(group_id, after=after, limit=limit)]
        found: dict[str, Task] = {}
        for start in range(0, len(ids), READ_BATCH):
            found |= await store.reads.get(ids[start : start + READ_BATCH])
        return [found[task_id] for task_id in ids if task_id in found]

    async def members(
        self, group_id: str, *, after: int = -1, limit: int = _ALL
    ) -> list[tuple[int, str]]:
        """Returns the numbers and ids of the tasks behind a number, in their order."""
        check_name("group_id", group_id)
        store = (await self._sessions.open()).store
        return await store.groups.members(group_id, after=after, limit=limit)

    async def wait(self, group_id: str, timeout: float | None = None) -> GroupProgress:
        """Waits until all tasks have ended. Of those that have not, it awaits the last: it often ends last,
        and then the others have ended too. Each is looked at once."""
        if timeout is not None:
            check_number("timeout", timeout)
        size = (await self.progress(group_id)).size
        try:
            async with asyncio.timeout(timeout):
                await self._wait_for_last(group_id, size)
        except TimeoutError:
            raise timed_out(await self.progress(group_id), timeout or 0.0) from None
        return await self.progress(group_id)

    async def _wait_for_last(self, group_id: str, below: int) -> None:
        session = await self._sessions.opened()
        groups = session.open_resources.store.groups
        while found := await groups.open_members(group_id, below=below):
            [(below, task_id)] = found
            # Retention may have removed it: then it had ended.
            with suppress(NotFound):
                await session.waiters.wait(task_id, None)

    async def cancel_rest(self, group_id: str, *, actor: str, reason: str) -> int:
        """Aborts the tasks that have not ended. Returns how many."""
        return await self.cancel(group_id, By(actor, reason))

    async def cancel(self, group_id: str, by: By) -> int:
        """As `cancel_rest`. What `by` writes beside commits with each transaction."""
        below, cancelled = (await self.progress(group_id)).size, 0
        groups = (await self._sessions.open()).store.groups
        while open_ := await groups.open_members(group_id, below=below, limit=CANCEL_BATCH):
            below = open_[-1][0]
            cancelled += await self._abort([task_id for _, task_id in open_], by)
        return cancelled

    async def _abort(self, ids: list[str], by: By) -> int:
        resources = await self._sessions.open()
        command = Abort(by.actor, by.reason)
        rulings = await resources.store.apply(
            [Instruction(task_id, command) for task_id in sorted(set(ids))], beside=by.beside
        )
        ended = [ruling.after for ruling in rulings if isinstance(ruling, Transition)]
        resources.bus.publish(WORK)
        resources.bus.publish(FEED)
        self._sessions.here.ended(ended)
        self._sessions.call_engine(lambda engine: engine.heartbeat.wake())
        return len(ended)


def timed_out(progress: GroupProgress, seconds: float) -> WaitTimeout:
    """The error of a wait for a group."""
    return WaitTimeout(
        f"{progress.open} of {progress.size} tasks of group {progress.id} have not ended within "
        f"{seconds:g} s: they go on; wait longer, or ask for the progress"
    )
