"""Changes of schedules, each with its event in the same transaction. `reads.py` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from holdfast.core.schedule import Schedule
from holdfast.core.submit import Submission
from holdfast.store.access import Access
from holdfast.store.beside import Beside
from holdfast.store.scripts import schedules as scripts
from holdfast.store.scripts.insert import Inserted


class Change(Protocol):
    """Who changes a schedule, e.g. `queue.by.By`."""

    @property
    def actor(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def expected_version(self) -> int | None: ...
    @property
    def beside(self) -> Beside | None: ...


class ScheduleStore:
    """The schedules of one store. RowHeld: another transaction holds the row."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def put(
        self,
        schedule: Schedule,
        *,
        actor: str,
        reason: str = "",
        expected_version: int | None = None,
        beside: Beside | None = None,
    ) -> bool:
        """Adds or changes a schedule. Returns whether anything changed."""
        return await self._access.run(
            partial(
                scripts.put,
                schedule=schedule,
                actor=actor,
                reason=reason,
                expected_version=expected_version,
                beside=beside,
            )
        )

    async def fire(self, schedule: Schedule, submission: Submission) -> Inserted | None:
        """Enqueues the task of a due schedule. None if another node was first."""
        return await self._access.run(
            lambda dialect, ids, now: scripts.fire(
                dialect, ids, now, schedule=schedule, submission=submission
            )
        )

    async def pause(self, name: str, change: Change) -> Schedule:
        return await self._access.run(partial(scripts.pause, name=name, **_fields(change)))

    async def resume(self, name: str, change: Change) -> Schedule:
        """The schedule fires again, from its next time on."""
        return await self._access.run(partial(scripts.resume, name=name, **_fields(change)))

    async def run(self, name: str, submission: Submission, change: Change) -> Inserted:
        """Enqueues the task of the schedule now."""
        return await self._access.run(
            partial(scripts.run, name=name, submission=submission, **_fields(change))
        )

    async def backfill(
        self, name: str, submissions: Sequence[Submission], change: Change
    ) -> list[Inserted]:
        """Enqueues the tasks of past times of the schedule, each once."""
        return await self._access.run(
            partial(scripts.backfill, name=name, submissions=submissions, **_fields(change))
        )

    async def remove(self, name: str, change: Change) -> None:
        await self._access.run(partial(scripts.remove, name=name, **_fields(change)))

    async def forget(self, schedule: Schedule) -> bool:
        """Removes a schedule that has left the code, unless a node announced it meanwhile. Returns whether it
        was removed."""
        return await self._access.run(
            lambda dialect, ids, now: scripts.forget(dialect, ids, now, schedule=schedule)
        )


def _fields(change: Change) -> dict[str, Any]:
    """What the scripts take of who makes a change."""
    return {
        "actor": change.actor,
        "reason": change.reason,
        "expected_version": change.expected_version,
        "beside": change.beside,
    }
