"""Who is called after a commit that took a step of an intervention or ended a decision, in this process.

Promises: called after the commit, once for each step. Never: fails the caller's operation by more than an
exception of the callback itself; the default does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.core.decision import Decision
from holdfast.core.intervention import Intervention


class StoreWatch:
    """The callbacks of a store. The stores that `reserved` makes share them."""

    __slots__ = ("decision_ended", "intervention_stepped")

    def __init__(self) -> None:
        self.intervention_stepped: Callable[[Intervention], None] = _ignore
        self.decision_ended: Callable[[Decision], None] = _ignore

    def interventions_ended(self, rows: Iterable[Intervention], since: float) -> None:
        """Reports those that have ended since a time of the store; a repeat shows an older end."""
        for row in rows:
            if row.ended_at is not None and row.ended_at >= since:
                self.intervention_stepped(row)


def _ignore(_: object) -> None:
    return None
