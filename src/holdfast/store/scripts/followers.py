"""Rows that follow a task: the transaction that ends an execution notes its end for the rollout of its job.

Promises: it runs for every end, whatever caused it. Never: decides, or reads the job.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.decide import ended
from holdfast.core.fleet.model import FLEET_TYPE
from holdfast.store.script import Script, call_rows
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
