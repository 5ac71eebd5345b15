"""The metrics of the fleet: each is seen to move by the act that it counts."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.errors import BadSignature
from holdfast.core.fleet.webhooks import signature
from holdfast.core.fleet.webhooks.rules import RETRY_SECONDS
from holdfast.engine import meters
from holdfast.fleet.agents import figures as agent_figures
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs import figures
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.deadlines import Deadlines
from holdfast.fleet.pipeline import Pipeline
from holdfast.fleet.webhooks.figures import DELIVERIES
from holdfast.fleet.webhooks.webhooks import Webhooks
from holdfast.gateway.server import new_metrics
from holdfast.metrics import Metrics
from holdfast.queue.by import By
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import exited
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT
from tests.conformance.fleet.test_approvals import BOB, CAT, NO, YES, asked
from tests.conformance.fleet.test_job_with_agents import joined, started
from tests.conformance.fleet.test_webhook_delivery import job_event, open_site, write


def metered(fleet: FleetBench) -> Metrics:
    metrics = new_metrics()
    fleet.pipeline = Pipeline(fleet.store, fleet.rules, fleet.bus, owner="metered", meter=metrics)
    return metrics


async def test_runs_are_timed_from_their_go(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    metrics = metered(fleet)
    agents = await joined(fleet, 2)
    job = (await fleet.create(list(agents), command_type="exec", command="uname")).job
    await fleet.publish()
    for agent, code in zip(agents.values(), (0, 3), strict=True):
        run = await started(agent)
        clock.set(clock.now() + 7.0)
        await agent.sync(results=[exited(*run, exit_code=code)])
    await fleet.plan(job.id)
    assert metrics.value(figures.EXECUTION_SECONDS, status="SUCCESS") == 1
    assert metrics.value(figures.EXECUTION_SECONDS, status="FAILED") == 1
    text = metrics.render()
    assert 'holdfast_execution_seconds_bucket{status="SUCCESS",le="5"} 0\n' in text
    assert 'holdfast_execution_seconds_bucket{status="SUCCESS",le="15"} 1\n' in text


async def test_what_never_got_its_go_is_not_timed(store: Store) -> None:
    fleet = FleetBench(store)
    metrics = metered(fleet)
    job = await asked(fleet)
    await Approvals(store, fleet.rules, fleet.bus, meter=metrics).reject(job.id, BOB, NO)
    await fleet.plan(job.id)
    assert metrics.value(figures.EXECUTIONS, status="CANCELLED", kind="rejected") == 3
    assert "holdfast_execution_seconds_count" not in metrics.render()


async def test_approvals_are_timed_once(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    metrics = metered(fleet)
    approvals = Approvals(store, fleet.rules, fleet.bus, meter=metrics)
    approved, rejected, glass, forgotten = [await asked(fleet) for _ in range(4)]
    clock.set(clock.now() + 20.0)
    for _ in range(2):  # a repeat counts once
        await approvals.approve(approved.id, BOB, YES)
    await approvals.reject(rejected.id, CAT, By("user:cat", "no"))
    await approvals.break_glass(glass.id, "INC-7", By("user:ann", "it burns"))
    clock.set(forgotten.not_after + 1.0)
    deadlines = Deadlines(store, fleet.rules, fleet.bus, meter=metrics)
    assert await deadlines.expire_approvals() == 1
    for outcome in ("approved", "rejected", "void", "expired"):
        assert metrics.value(figures.APPROVAL_SECONDS, outcome=outcome) == 1, outcome
    text = metrics.render()
    assert 'holdfast_approval_seconds_bucket{outcome="approved",le="15"} 0\n' in text
    assert 'holdfast_approval_seconds_bucket{outcome="approved",le="60"} 1\n' in text


async def test_hosts_are_counted_by_state_and_life(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    metrics = new_metrics()
    await fleet.add_hosts(3)
    hosts = Hosts(store)
    found = await hosts.select(PROJECT, "*")
    await hosts.edit(found[0].id, BY, state="cordoned")
    await hosts.remove(found[1].id, BY)

    def value(state: str, live: str) -> float:
        return metrics.value(figures.HOSTS, state=state, live=live)

    await figures.look(metrics, store, fleet.rules)
    assert (value("active", "true"), value("cordoned", "true")) == (1, 1)
    clock.set(clock.now() + fleet.rules.silent_seconds + 1.0)
    await figures.look(metrics, store, fleet.rules)
    assert (value("active", "true"), value("active", "false")) == (0, 1)


def test_a_late_result_of_an_agent_is_counted() -> None:
    metrics = new_metrics()
    agent_figures.count(metrics, Counter({"late": 2, "fenced": 1}))
    assert metrics.value(meters.LATE, kind="agent") == 2


async def test_deliveries_are_counted_by_outcome(store: Store, clock: VirtualClock) -> None:
    metrics = new_metrics()

    def value(outcome: str) -> float:
        return metrics.value(DELIVERIES, direction="out", outcome=outcome)

    async with open_site(store, clock) as site:
        site.sender._meter = metrics
        await site.add()
        await write(store, job_event(store, 1))
        await site.step()
        assert value("delivered") == 1
        site.endpoint.answers = [500] * (1 + len(RETRY_SECONDS))
        await write(store, job_event(store, 2))
        await site.step()
        for pause in RETRY_SECONDS:
            site.later(pause * 1.3)
            await site.step()
        assert (value("failed"), value("given_up")) == (len(RETRY_SECONDS), 1)
        site.endpoint.answers = [410]
        await write(store, job_event(store, 3))
        await site.step()
        assert value("gone") == 1


async def test_signed_requests_are_counted(store: Store) -> None:
    metrics = new_metrics()
    hooks = Webhooks(store, meter=metrics)
    issued = await hooks.add_source(PROJECT, "ci", BY)
    signed = signature.sign([issued.secret], "m-1", store.now(), b"{}").headers()
    await hooks.authenticate(signed, b"{}")
    with pytest.raises(BadSignature):
        await hooks.authenticate(signed, b"{ }")
    assert metrics.value(DELIVERIES, direction="in", outcome="accepted") == 1
    assert metrics.value(DELIVERIES, direction="in", outcome="refused") == 1


PROMISED = """
tasks_total task_wait_seconds task_run_seconds queue_depth queue_oldest_seconds dead_letters
workers_busy workers sync_latency_seconds sync_conflicts_total sync_lag_seconds sync_lag_events
sync_messages_total feed_resets_total feed_head feed_falloff_seconds fencing_rejections_total
ws_clients ws_frames_total ws_merged_total ws_parked ws_parked_total ws_closed_total ws_buffer_bytes
interventions_total intervention_seconds decisions_open decision_seconds approvals_open
approval_seconds leases_expired_total tasks_stuck late_results_total jobs_total executions_total
fleet_hosts host_slots_held offers_total execution_seconds reconciled_total output_bytes_total
output_folded_bytes_total webhook_deliveries_total outbox_depth outbox_oldest_seconds requests_total
request_seconds auth_failures_total rate_limited_total store_commit_seconds bus_hints_total bus_mode
build_info
"""


def test_a_server_has_all_promised_metrics() -> None:
    text = new_metrics().render()
    missing = [name for name in PROMISED.split() if f"# TYPE holdfast_{name} " not in text]
    assert missing == []
