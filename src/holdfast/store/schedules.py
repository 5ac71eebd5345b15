"""Changes of schedules, each with its event in the same transaction. `reads.py` reads them."""

from __future__ import annotations

from functools import partial

from holdfast.core.schedule import Schedule
from holdfast.core.submit import Submission
from holdfast.store.access import Access
from holdfast.store.beside import Beside
from holdfast.store.scripts import schedules as scripts
from holdfast.store.scripts.insert import Inserted


class ScheduleStore:
    """The schedules of one store. RowHeld: another transaction holds the row."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def put(
        self, schedule: Schedule, *, actor: str, reason: str = "", beside: Beside | None = None
    ) -> bool:
        """Adds or changes a schedule. Returns whether anything changed."""
        return await self._access.run(
            partial(scripts.put, schedule=schedule, actor=actor, reason=reason, beside=beside)
        )

    async def fire(self, schedule: Schedule, submission: Submission) -> Inserted | None:
        """Enqueues the task of a due schedule. None if another node was first."""
        return await self._access.run(
            lambda dialect, ids, now: scripts.fire(
                dialect, ids, now, schedule=schedule, submission=submission
            )
        )

    async def pause(
        self, name: str, *, actor: str, reason: str, beside: Beside | None = None
    ) -> Schedule:
        return await self._access.run(
            partial(scripts.pause, name=name, actor=actor, reason=reason, beside=beside)
        )

    async def resume(
        self, name: str, *, actor: str, reason: str = "", beside: Beside | None = None
    ) -> Schedule:
        """The schedule fires again, from its next time on."""
        return await self._access.run(
            partial(scripts.resume, name=name, actor=actor, reason=reason, beside=beside)
        )

    async def remove(
        self, name: str, *, actor: str, reason: str, beside: Beside | None = None
    ) -> None:
        await self._access.run(
            partial(scripts.remove, name=name, actor=actor, reason=reason, beside=beside)
        )

    async def forget(self, schedule: Schedule) -> bool:
        """Removes a schedule that has left the code, unless a node announced it meanwhile. Returns whether it
        was removed."""
        return await self._access.run(
            lambda dialect, ids, now: scripts.forget(dialect, ids, now, schedule=schedule)
        )
