"""What is measured of jobs, approvals and the outbox."""

from __future__ import annotations

from typing import Final

from holdfast.core.fleet.model import OutboxKind
from holdfast.core.fleet.status import KINDS, ExecutionKind
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.jobs.steps import Planned
from holdfast.metrics import Family, Kind, Meter
from holdfast.store.script import Script, call
from holdfast.store.store import Store

JOBS: Final = "holdfast_jobs_total"
EXECUTIONS: Final = "holdfast_executions_total"
APPROVALS: Final = "holdfast_approvals_open"
OUTBOX: Final = "holdfast_outbox_depth"
OLDEST: Final = "holdfast_outbox_oldest_seconds"
FAMILIES: Final = (
    Family(JOBS, Kind.COUNTER, "Jobs that have ended.", ("status",)),
    Family(
        EXECUTIONS,
        Kind.COUNTER,
        "Executions that have ended and were counted by their jobs.",
        ("status", "kind"),
    ),
    Family(APPROVALS, Kind.GAUGE, "Approvals that wait for votes."),
    Family(OUTBOX, Kind.GAUGE, "Entries of the outbox that are not done.", ("kind",)),
    Family(OLDEST, Kind.GAUGE, "How long the oldest entry of the outbox has been due.", ("kind",)),
)


def count(meter: Meter, planned: Planned) -> None:
    """Adds what a step of a job did."""
    for kind, n in planned.ended.items():
        meter.count(EXECUTIONS, n, status=KINDS[ExecutionKind(kind)].status.value, kind=kind)
    if planned.has_finished and planned.job is not None:
        meter.count(JOBS, 1, status=planned.job.status.value)


async def look(meter: Meter, store: Store) -> None:
    """Sets the gauges."""
    now = store.now()
    waiting, approvals = await read(store)
    for kind in OutboxKind:
        depth, due_at = waiting.get(kind.value, (0, now))
        meter.gauge(OUTBOX, depth, kind=kind.value)
        meter.gauge(OLDEST, max(0.0, now - due_at), kind=kind.value)
    meter.gauge(APPROVALS, approvals)


async def read(store: Store) -> tuple[dict[str, tuple[int, float]], int]:
    """Entries of the outbox that are not done, by kind, with when the first is due; and open approvals."""
    return await store.read(_read)


def _read() -> Script[tuple[dict[str, tuple[int, float]], int]]:
    rows = yield call(own("outbox_figures"))
    approvals = yield call(own("count_approvals"))
    return {kind: (n, due_at) for kind, n, due_at in rows}, approvals[0][0]
