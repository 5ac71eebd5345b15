"""Runs that were ended from outside: which of those that a gateway handed out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.task import RunId
from holdfast.store.script import call_rows, one
from holdfast.store.store import Store
from holdfast.sync.worker.live_rows import own


class EndedRun(NamedTuple):
    """A run that its worker holds no more."""

    run: RunId
    is_taken: bool
    """Whether it was taken from its worker, and no command says so."""


async def ended_runs(store: Store, runs: Sequence[RunId]) -> list[EndedRun]:
    """Those of the runs that have ended."""
    pairs = [(run.task_id, run.fence) for run in runs]
    rows = await store.read(lambda: one(call_rows(own("ended_runs"), pairs)))
    return [EndedRun(RunId(task_id, fence), bool(is_taken)) for task_id, fence, is_taken in rows]
