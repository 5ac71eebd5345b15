"""Tasks that are not claimed yet: when the next one is due, and gates that open.

Never: claims a task.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.claiming import Upcoming
from holdfast.store.access import Access
from holdfast.store.script import call
from holdfast.store.scripts import claim as scripts


class BacklogStore:
    """The unclaimed tasks of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def next_due(self, queues: Sequence[str], after: float | None = None) -> Upcoming:
        """When the next task becomes due, after now or after `after`, and when the next limit opens."""
        now = self._access.now() if after is None else after
        rows = await self._access.rows("next_due", queues=list(queues), now=now)
        return Upcoming(*rows[0])

    async def first_due(self, queues: Sequence[str]) -> Upcoming:
        """When the first task in line was or will be due, and when the next limit opens."""
        statement = call("first_due", queues=list(queues))
        due_at, opens_at, _ = (await self._access.driver.read_dated(statement))[0]
        return Upcoming(due_at, opens_at)

    async def open_gates(self) -> tuple[int, float | None]:
        """Unparks tasks that waited for a rate. Returns how many, and when the next gate opens."""
        access = self._access
        now = access.now()
        return await access.write(
            lambda: scripts.open_gates(
                now=now, record_id=access.ids.record(now), recorder=access.dialect
            )
        )
