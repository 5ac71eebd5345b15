"""Changes of schedules, each with its event in the same transaction. `reads.py` reads them."""

from __future__ import annotations

from holdfast.core.schedule import Schedule
from holdfast.core.submit import Submission
from holdfast.store.access import Access
from holdfast.store.scripts import schedules as scripts
from holdfast.store.scripts.insert import Inserted


class ScheduleStore:
    """The schedules of one store. RowHeld: another transaction holds the row."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def put(self, schedule: Schedule, *, actor: str) -> bool:
        """Adds or changes a schedule. Returns whether anything changed."""
        return await self._access.run(
            lambda dialect, ids, now: scripts.put(dialect, ids, now, schedule=schedule, actor=actor)
        )

    async def fire(self, schedule: Schedule, submission: Submission) -> Inserted | None:
        """Enqueues the task of a due schedule. None if another node was first."""
        return await self._access.run(
            lambda dialect, ids, now: scripts.fire(
                dialect, ids, now, schedule=schedule, submission=submission
            )
        )

    async def pause(self, name: str, *, actor: str, reason: str) -> Schedule:
        return await self._access.run(
            lambda dialect, ids, now: scripts.pause(
                dialect, ids, now, name=name, actor=actor, reason=reason
            )
        )

    async def resume(self, name: str, *, actor: str) -> Schedule:
        """The schedule fires again, from its next time on."""
        return await self._access.run(
            lambda dialect, ids, now: scripts.resume(dialect, ids, now, name=name, actor=actor)
        )

    async def remove(self, name: str, *, actor: str, reason: str) -> None:
        await self._access.run(
            lambda dialect, ids, now: scripts.remove(
                dialect, ids, now, name=name, actor=actor, reason=reason
            )
        )

    async def forget(self, schedule: Schedule) -> bool:
        """Removes a schedule that has left the code, unless a node announced it meanwhile. Returns whether it
        was removed."""
        return await self._access.run(
            lambda dialect, ids, now: scripts.forget(dialect, ids, now, schedule=schedule)
        )
