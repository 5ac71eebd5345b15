"""The wait of a sweeper after its time has jumped.

Promises: live runners can renew their leases before these are judged. Never: waits without end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from holdfast.core.lease import renewal_interval

WAITS_MAX: Final = 10
"""How often a wait for live runners may start again. A clock that keeps jumping must not block the sweep."""
LATE_SECONDS: Final = 0.3
"""A tick that is late by more than this reads the lease durations of the nodes."""


class Patience:
    """How long a sweeper waits after its time has jumped.

    Runners renew every third of a lease, so a shorter jump endangers no live runner. After a longer jump the
    runners may have been suspended like the sweeper, or use a clock that has not jumped yet. Nodes may have
    leases of different durations: the longest lease that is endangered decides.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._planned_at: float | None = None
        self._until: float | None = None
        self._waits = 0

    def plan(self, at: float) -> None:
        """Sets the time of the next tick, which may also come earlier."""
        self._planned_at = at

    def begin(self, at: float) -> None:
        """The first tick is planned for this time. If the store answers slowly, the time may jump between its
        first reading and the first tick, too."""
        if self._planned_at is None:
            self._planned_at = at

    def hold(self, until: float) -> None:
        """Leases are judged at this time at the earliest."""
        self._until = until if self._until is None else max(self._until, until)

    def is_late(self, now: float) -> bool:
        """Whether the time may have jumped."""
        return self._planned_at is not None and now - self._planned_at > LATE_SECONDS

    def remaining(
        self, now: float, leases: Collection[float] = (), *, unrenewed_seconds: float = 0.0
    ) -> float:
        """Seconds to wait before leases are judged. `leases`: the lease durations of other nodes.
        `unrenewed_seconds`: time since this process renewed its own leases. If it cannot renew, other live
        runners may not be able to either. A jump during a wait starts the wait again, at most `WAITS_MAX`
        times."""
        jump = 0.0 if self._planned_at is None else now - self._planned_at
        jump = max(jump, unrenewed_seconds - renewal_interval(self._lease_seconds))
        endangered = [
            lease_seconds
            for lease_seconds in (self._lease_seconds, *leases)
            if jump > renewal_interval(lease_seconds)
        ]
        if endangered and self._waits < WAITS_MAX:
            self.hold(now + max(endangered))
            self._waits += 1
        if self._until is None:
            return 0.0
        seconds = self._until - now
        if seconds <= 0.0:
            self._until, self._waits = None, 0
        return max(0.0, seconds)
