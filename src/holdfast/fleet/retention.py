"""How long the fleet keeps what has ended.

Promises: a job goes with all that belongs to it: executions and their tasks, output, blobs that nothing else
refers to, approvals, votes, entries of the outbox. A job of up to `EXECUTIONS_MAX` hosts goes in one
transaction; the row of a larger one goes last. A job whose executions have not all ended stays.
Never: touches other tasks; the store's own retention leaves executions alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.clock import Clock
from holdfast.core.fleet.agents.run_output import blob_names, read_states
from holdfast.core.fleet.model import SLOT, job_id_at
from holdfast.core.ids import Ids
from holdfast.core.retention import DAY_SECONDS
from holdfast.engine.loop import Loop
from holdfast.fleet.rows import own
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.store import Store

EXECUTIONS_MAX: Final = 500
"""Executions that one transaction removes."""
JOBS_MAX: Final = 100
"""Jobs that one statement reads."""
ROWS_MAX: Final = 1_000
"""Rows of another kind that one transaction removes."""
CLOCKS_SECONDS: Final = DAY_SECONDS
PRUNE_SECONDS: Final = 300.0
FIRST_SECONDS: Final = 10.0
"""A process that starts prunes after this time."""


class FleetRetention(msgspec.Struct, frozen=True):
    """In seconds."""

    job_seconds: float = 30 * DAY_SECONDS
    """Jobs after their end, hosts after their removal, blocks after theirs."""
    delivery_seconds: float = 7 * DAY_SECONDS
    """Entries of the outbox, among them deliveries of webhooks, after they are done."""


class FleetPruning:
    """Removes what the retention of the fleet no longer covers."""

    def __init__(self, store: Store, keep: FleetRetention | None = None) -> None:
        self._store = store
        self._keep = keep or FleetRetention()

    async def prune(self) -> int:
        """Removes all that is too old, in several transactions. Returns how many jobs and other rows."""
        now = self._store.now()
        before = now - self._keep.job_seconds
        gone = await self._jobs(before)
        for statement, until in (
            ("forget_outbox", now - self._keep.delivery_seconds),
            ("forget_blocks", before),
        ):
            gone += await self._all(partial(_forget, statement, until))
        return gone + await self._all(partial(_forget_hosts, before))

    async def _jobs(self, before: float) -> int:
        gone, after = 0, (0.0, "")
        while True:
            rows = await self._store.read(partial(_finished, before, after))
            if rows and not gone:
                # Tasks are subtracted from the counters, so their ends are counted first.
                await self._store.feed.counters()
            for job_id, _ in rows:
                gone += await self._job(job_id)
            if len(rows) < JOBS_MAX:
                return gone
            after = (rows[-1][1], rows[-1][0])

    async def _job(self, job_id: str) -> bool:
        is_gone = await self._store.run(partial(forget_job, job_id=job_id, is_first=True))
        while is_gone is None:
            is_gone = await self._store.run(partial(forget_job, job_id=job_id, is_first=False))
        return is_gone

    async def _all(self, make: Any) -> int:
        total = 0
        while True:
            gone: int = await self._store.run(lambda *_: make())
            total += gone
            if gone < ROWS_MAX:
                return total


class PruningLoop(Loop):
    """Prunes the fleet every `PRUNE_SECONDS`."""

    name = "fleet-retention"

    def __init__(self, pruning: FleetPruning, clock: Clock) -> None:
        super().__init__(clock)
        self._pruning = pruning
        self._is_started = False

    async def tick(self) -> float:
        if not self._is_started:
            self._is_started = True
            return FIRST_SECONDS
        await self.guard("pruning", self._pruning.prune())
        return PRUNE_SECONDS


def forget_job(
    dialect: Dialect, ids: Ids, now: float, *, job_id: str, is_first: bool
) -> Script[bool | None]:
    """Removes a batch of a finished job. None: there is more of it. False: it stays, or another process has
    removed it."""
    if not (yield call(own("lock_finished_job"), id=job_id)):
        return False
    if is_first and (yield call(own("unended_execution"), job_id=job_id)):
        return False
    rows = yield call(own("executions_to_forget"), job_id=job_id, limit=EXECUTIONS_MAX)
    tasks = [row[0] for row in rows]
    if tasks:
        yield from dialect.delete_tasks(sorted(tasks))
        gone = yield call(own("forget_executions"), ids=tasks)
        yield call(own("forget_outbox_of"), subjects=tasks)
        yield from _release(gone)
        if len(tasks) == EXECUTIONS_MAX and gone:
            return None
    if (yield call(own("any_execution"), job_id=job_id)):
        return False
    yield call(own("forget_votes"), job_id=job_id)
    yield call(own("forget_approvals"), job_id=job_id)
    yield call(own("forget_outbox_of"), subjects=[job_id])
    yield call(own("forget_job"), id=job_id)
    return True


def _finished(before: float, after: tuple[float, str]) -> Script[list[tuple[str, float]]]:
    rows = yield call(
        own("finished_jobs"), before=before, after_at=after[0], after_id=after[1], limit=JOBS_MAX
    )
    return [tuple(row) for row in rows]


def _release(executions: Sequence[Any]) -> Script[None]:
    """Gives up the references to the outputs of removed executions."""
    refs: Counter[str] = Counter()
    for _, output_json in executions:
        refs.update(blob_names(read_states(output_json).values()))
    if refs:
        yield call_rows(own("release_blobs"), sorted(refs.items()))
        yield call(own("forget_blobs"), ids=sorted(refs))


def _forget(statement: str, before: float) -> Script[int]:
    return len((yield call(own(statement), before=before, limit=ROWS_MAX)))


def _forget_hosts(before: float) -> Script[int]:
    """Jobs that were made after the removal of a host do not name it. Clocks may differ by
    `CLOCKS_SECONDS`."""
    job = job_id_at(before + CLOCKS_SECONDS)
    rows = yield call(own("forget_hosts"), before=before, job=job, slot=SLOT, limit=ROWS_MAX)
    if rows:
        yield call(own("forget_agents"), ids=[row[0] for row in rows])
    return len(rows)
