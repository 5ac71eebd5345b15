"""The check of `holdfast doctor` on runs whose lease has ended.

Promises: changes nothing. A sweeper takes such runs back within seconds, so those that are left show that
none works, or that another transaction holds them.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.length import length
from holdfast.core.plural import noun_for
from holdfast.queue.check import Check, Level
from holdfast.store.store import Store
from holdfast.sync.status import Monitor

NAME: Final = "leases"
LATE_SECONDS: Final = 60.0
"""A run whose lease has ended for longer should have been taken back."""
COUNTED_MAX: Final = 100


async def check_leases(store: Store) -> Check:
    """Runs that no sweeper takes back."""
    found = await Monitor(store).fix_expired(limit=COUNTED_MAX, dry_run=True)
    late = [
        lock.expired_seconds_ago for lock in found.locks if lock.expired_seconds_ago > LATE_SECONDS
    ]
    if not late:
        return Check(NAME, Level.OK, "no run is left whose lease has ended")
    count = f"{len(late)}{' or more' if found.has_more else ''} {noun_for(len(late), 'run')}"
    text = (
        f"{count} lost the lease up to {length(max(late))} ago, and no sweeper takes them back: start a "
        "worker or a server, or end them with `holdfast doctor --fix`"
    )
    return Check(NAME, Level.WARN, text)
