"""What is measured of jobs, approvals, hosts and the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core.fleet.model import ApprovalRequest, HostState, OutboxKind
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.fleet.status import KINDS, ExecutionKind
from holdfast.fleet.jobs.planned import Planned
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import own as fleet_own
from holdfast.metrics import Family, Kind, Meter
from holdfast.store.script import Script, call
from holdfast.store.store import Store

JOBS: Final = "holdfast_jobs_total"
EXECUTIONS: Final = "holdfast_executions_total"
APPROVALS: Final = "holdfast_approvals_open"
OUTBOX: Final = "holdfast_outbox_depth"
OLDEST: Final = "holdfast_outbox_oldest_seconds"
HOSTS: Final = "holdfast_fleet_hosts"
EXECUTION_SECONDS: Final = "holdfast_execution_seconds"
APPROVAL_SECONDS: Final = "holdfast_approval_seconds"
RUN_BUCKETS: Final = (0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0)
PEOPLE_BUCKETS: Final = (5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
FAMILIES: Final = (
    Family(JOBS, Kind.COUNTER, "Jobs that have ended.", ("status",)),
    Family(
        EXECUTIONS,
        Kind.COUNTER,
        "Executions that have ended and were counted by their jobs.",
        ("status", "kind"),
    ),
    Family(
        EXECUTION_SECONDS,
        Kind.HISTOGRAM,
        "From the go of an execution to its end, if it got one; counted with `executions_total`.",
        ("status",),
        RUN_BUCKETS,
    ),
    Family(APPROVALS, Kind.GAUGE, "Approvals that wait for votes."),
    Family(
        APPROVAL_SECONDS,
        Kind.HISTOGRAM,
        "From the request for an approval to its end: approved, rejected, expired, void.",
        ("outcome",),
        PEOPLE_BUCKETS,
    ),
    Family(
        HOSTS,
        Kind.GAUGE,
        "Hosts that were not removed, by state and by whether they answer.",
        ("state", "live"),
    ),
    Family(OUTBOX, Kind.GAUGE, "Entries of the outbox that are not done.", ("kind",)),
    Family(OLDEST, Kind.GAUGE, "How long the oldest entry of the outbox has been due.", ("kind",)),
)


def count(meter: Meter, planned: Planned) -> None:
    """Adds what a step of a job did."""
    for kind, n in planned.ended.items():
        meter.count(EXECUTIONS, n, status=KINDS[ExecutionKind(kind)].status.value, kind=kind)
    for kind, seconds in planned.seconds:
        status = KINDS[ExecutionKind(kind)].status.value
        meter.observe(EXECUTION_SECONDS, seconds, status=status)
    if planned.has_finished and planned.job is not None:
        meter.count(JOBS, 1, status=planned.job.status.value)


def count_approval(meter: Meter, request: ApprovalRequest | None) -> None:
    """Adds a request that has just ended; one that is open is left out."""
    if request is not None and request.ended_at is not None:
        seconds = max(0.0, request.ended_at - request.created_at)
        meter.observe(APPROVAL_SECONDS, seconds, outcome=request.state)


async def look(meter: Meter, store: Store, rules: FleetRules) -> None:
    """Sets the gauges."""
    now = store.now()
    hosts = await store.read(lambda: _hosts(rules.look(now)))
    for state in (HostState.ACTIVE, HostState.CORDONED):
        for live in (True, False):
            n = hosts.get((state.value, live), 0)
            meter.gauge(HOSTS, n, state=state.value, live=str(live).lower())
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


def _hosts(look: Mapping[str, float | str]) -> Script[dict[tuple[str, bool], int]]:
    """Hosts by state and by whether they answer."""
    rows = yield call(fleet_own("host_figures"), **look)
    return {(state, bool(live)): n for state, live, n in rows}
