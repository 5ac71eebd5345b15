"""The log of the exchange: ends of leases, and acts of operators.

Promises: an entry commits with its change. A task that no node knows by a name has no entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.core.event import NewEvent
from holdfast.core.transition import Ruling, Transition
from holdfast.store.beside import Beside
from holdfast.store.script import Script, call_rows

EXPIRE: Final = "expire"
INTERVENE: Final = "intervene"


def log_expired(rulings: Iterable[Ruling], now: float) -> Script[None]:
    """Logs the runs that have expired, under the nodes that had them. It locks their projects, so tasks and
    limits are locked before (lock order)."""
    rows = [
        (ruling.after.id, ruling.before.node or "", ruling.before.version, ruling.after.version)
        for ruling in rulings
        if isinstance(ruling, Transition)
    ]
    if rows:
        yield call_rows("log_sync_changes", rows, op=EXPIRE, now=now)


class ExpiryLog(Beside):
    """Logs the runs that a batch of instructions has expired."""

    __slots__ = ()

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        assert isinstance(outcome, list)
        yield from log_expired(outcome, now)
        return ()
