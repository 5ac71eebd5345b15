"""Rows that follow a task: the transaction that ends an execution notes its end for the rollout of its job.

Promises: it runs for every end, whatever caused it. A lease of an execution does not end while no gateway
serves agents, nor until the grace after such an outage is over. Never: decides, or reads the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.decide import ended
from holdfast.core.fleet.model import FLEET_TYPE, OUTAGE_SECONDS
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.sync_log import ExpiryLog
from holdfast.store.scripts.work import Work


def end_executions(work: Work) -> Script[None]:
    """Notes the ends of executions in their rows."""
    rows: list[tuple[Any, ...]] = [
        (transition.after.id, transition.after.finished_at)
        for transition in work.transitions
        if transition.after.type == FLEET_TYPE and ended(transition)
    ]
    if rows:
        yield call_rows("end_executions", rows)


class Expiry(ExpiryLog):
    """The end of leases, except of executions whose agents could not renew them."""

    __slots__ = ("_ids",)

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = sorted(ids)

    def before(self, now: float) -> Script[None]:
        yield call("spare_unserved", ids=self._ids, now=now, type=FLEET_TYPE, silent=OUTAGE_SECONDS)
