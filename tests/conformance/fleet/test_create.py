"""New jobs: one transaction, one job for many equal requests, nothing half made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.errors import EmptySelection, UnknownHost
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.model import ApprovalState, HostState, JobStatus
from holdfast.errors import IdempotencyConflict
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.store.audit import AuditStore
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT, audited, events
from tests.conformance.tasks.helpers import check_counters


async def test_a_job_has_an_execution_for_each_host(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3)
    created = await fleet.create([*names, names[0]], external_id="deploy-42")
    job = created.job
    assert created.created
    assert (job.hosts, job.status, job.approval_state) == (
        3,
        JobStatus.NEW,
        ApprovalState.NOT_REQUIRED,
    )
    executions = await fleet.executions(job.id)
    assert [(e.nth, e.host, e.wave, e.ended_at) for e in executions] == [
        (nth, name, None, None) for nth, name in enumerate(names)
    ]
    tasks = await fleet.tasks(job.id)
    for execution in executions:
        task = tasks[execution.task_id]
        assert (task.type, task.queue, task.status) == ("fleet.run", "fleet", "blocked")
        assert task.assigned_to == execution.host_id
        assert task.options.pinned
        assert task.options.lost_after_seconds == fleet.rules.lost_after_seconds
    [event] = await events(store, "job.")
    assert (event.kind, event.data["job"], event.data["hosts"]) == ("job.created", job.id, 3)
    assert await events(store, "task.") == []
    await check_counters(store)


async def test_100_equal_requests_at_once_are_one_job(shared_bench: Bench) -> None:
    stores = [await shared_bench.open() for _ in range(3)]
    fleets = [FleetBench(store) for store in stores]
    names = await fleets[0].add_hosts(5)
    answers = await asyncio.gather(
        *(fleets[n % 3].create(names, external_id="one") for n in range(100))
    )
    assert {answer.job.id for answer in answers} == {answers[0].job.id}
    assert [answer.created for answer in answers].count(True) == 1
    assert len(await fleets[0].executions(answers[0].job.id)) == 5
    assert len(await events(stores[0], "job.created")) == 1
    await check_counters(stores[0])


async def test_the_same_external_id_with_another_body_is_refused(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    await fleet.create(names, external_id="one")
    with pytest.raises(IdempotencyConflict):
        await fleet.create(names, external_id="one", reason="another body")
    assert len(await events(store, "job.created")) == 1


async def test_a_repeat_is_answered_after_its_hosts_are_gone(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    first = await fleet.create(names, external_id="one")
    host = await Hosts(store).get(PROJECT, names[0])
    await Hosts(store).remove(host.id, BY)
    again = await fleet.create(names, external_id="one")
    assert (again.job.id, again.created) == (first.job.id, False)


async def test_a_request_without_an_external_id_is_new_each_time(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    assert (await fleet.create(names)).job.id != (await fleet.create(names)).job.id


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"hosts": []}, EmptySelection),
        ({"hosts": ["web-001", "no-such-host"]}, UnknownHost),
        ({"selector": "role=none"}, EmptySelection),
        ({"selector": "web-009"}, UnknownHost),
    ],
)
async def test_a_bad_selection_writes_nothing(
    store: Store, fields: dict[str, Any], error: type[Exception]
) -> None:
    fleet = FleetBench(store)
    await fleet.add_hosts(2)
    with pytest.raises(error):
        await fleet.create(**fields)
    assert await events(store, "job.") == []
    await check_counters(store)


async def test_a_selector_is_resolved_once_and_pinned(store: Store) -> None:
    fleet = FleetBench(store)
    await fleet.add_hosts(3, labels={"role": "web"})
    created = await fleet.create(selector="role=web!web-002")
    assert [e.host for e in await fleet.executions(created.job.id)] == ["web-001", "web-003"]
    host = await Hosts(store).get(PROJECT, "web-002")
    await Hosts(store).edit(host.id, BY, labels={"role": "db"})
    assert len(await fleet.executions(created.job.id)) == 2


async def test_cordoned_hosts_are_left_out_with_the_reason(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    host = await Hosts(store).get(PROJECT, names[1])
    await Hosts(store).edit(host.id, BY, state=HostState.CORDONED.value)
    created = await fleet.create(names)
    assert [e.host for e in await fleet.executions(created.job.id)] == [names[0]]
    assert [(x.host, x.reason) for x in created.excluded] == [(names[1], "cordoned")]


async def test_a_dry_run_writes_nothing(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    plan = await fleet.create(names, dry_run=True, external_id="one")
    assert not plan.created
    assert [host.name for host in plan.hosts] == names
    assert await events(store, "job.") == []
    real = await fleet.create(names, external_id="one")
    assert real.created
    assert real.job.digest == plan.job.digest


async def test_a_job_above_the_bound_of_its_type_waits_for_an_approval(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(51)
    few = await fleet.create(names[:50], command_type="exec", command="true")
    assert few.job.approval_state is ApprovalState.NOT_REQUIRED
    many = await fleet.create(names, command_type="exec", command="true")
    assert many.job.approval_state is ApprovalState.WAIT_APPROVAL
    assert many.job.status is JobStatus.WAIT_APPROVAL
    assert many.approval is not None
    assert many.approval.digest == many.job.digest
    await fleet.publish()
    assert (await fleet.job(many.job.id)).status is JobStatus.WAIT_APPROVAL
    assert (await fleet.plan(many.job.id)).started_at is None
    assert await fleet.statuses(many.job.id) == {"blocked": 51}


async def test_the_audit_is_part_of_the_transaction(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    await fleet.jobs.create(JobRequest(command_type="noop", hosts=names), audited("job"))
    assert (await AuditStore(store).head()).seq == 1
    assert len(await events(store, "job.created")) == 1
