"""A command type that changes under a job: the job is refused, and nothing else of its hosts is."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ApprovalVoid, CommandRefused
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.commands.command_type import command_types
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.task import Status
from holdfast.errors import InvalidInput
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.control import JobControl
from holdfast.queue.by import By
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.agent_support import (
    TestAgent,
    accept,
    enrol,
    exited,
    get_execution,
    get_task,
    running,
)
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY

BOB = Person("user:bob", frozenset({"role:approver"}))
BOB_BY = By("user:bob", "fine")
OLD = {"argv": ["true", "{command}"], "options": True, "env": ["COLOUR"]}
CHANGES = {
    "other arguments": {"argv": ["true", "{args.x}"]},
    "no options": {"argv": ["true", "{command}"], "env": ["COLOUR"]},
    "no variables": {"argv": ["true", "{command}"], "options": True},
}


def rules_with(definition: dict[str, object], **more: object) -> FleetRules:
    return FleetRules(command_types=command_types({"t": definition | more}))


async def host_of(store: Store, rules: FleetRules) -> TestAgent:
    agents = Agents(store, rules)
    return TestAgent(agents, await enrol(agents, store, "web-001"))


def request() -> JobRequest:
    return JobRequest(command_type="t", command="-x", env={"COLOUR": "red"}, hosts=["web-001"])


@pytest.mark.parametrize("new", CHANGES.values(), ids=CHANGES)
async def test_a_job_that_its_type_does_not_take_is_refused_alone(
    store: Store, new: dict[str, object]
) -> None:
    before = FleetBench(store, rules_with(OLD))
    host = await host_of(store, before.rules)
    first = await before.create(["web-001"], command_type="exec", command="true")
    await before.plan(first.job.id)
    [offer] = (await host.sync(capacity=1)).offers
    await host.sync(**accept(offer.execution, offer.token))
    await host.sync(**running(offer.execution, offer.token))
    waiting = await before.jobs.create(request(), BY)
    after = FleetBench(store, rules_with(new))
    approvals = Approvals(store, after.rules, after.bus)
    with pytest.raises(ApprovalVoid):
        await approvals.approve(waiting.job.id, BOB, BOB_BY)
    await approvals.approve(waiting.job.id, BOB, BOB_BY)
    await after.plan(waiting.job.id)
    last = await after.create(["web-001"], command_type="exec", command="true")
    await after.plan(last.job.id)
    host.agents = Agents(store, after.rules)
    answer = await host.sync(capacity=1, results=[exited(offer.execution, offer.token)])
    assert (await get_task(store, offer.execution)).status is Status.COMPLETED
    [next_offer] = answer.offers
    assert next_offer.job == last.job.id
    assert await after.statuses(waiting.job.id) == {"aborted": 1}


@pytest.mark.parametrize("new", CHANGES.values(), ids=CHANGES)
async def test_a_retry_is_checked_by_the_present_type(store: Store, new: dict[str, object]) -> None:
    before = FleetBench(store, rules_with(OLD, approval="none"))
    await before.add_hosts(1)
    made = await before.jobs.create(request(), BY)
    await before.run_out(made.job.id, end=lambda task: False)
    await before.plan(made.job.id)
    rules = rules_with(new, approval="none")
    with pytest.raises((InvalidInput, CommandRefused)):
        await JobControl(store, rules, before.bus).retry(made.job.id, BY)


async def test_a_spec_that_cannot_be_read_keeps_no_other_job_from_its_host(
    store: Store, bench: Bench
) -> None:
    fleet = FleetBench(store)
    host = await host_of(store, fleet.rules)
    bad = await fleet.create(["web-001"])
    await fleet.plan(bad.job.id)
    good = await fleet.create(["web-001"])
    await fleet.plan(good.job.id)
    await bench.sql(f"UPDATE holdfast_job SET spec_json = '{{}}' WHERE id = '{bad.job.id}'")
    [offer] = (await host.sync(capacity=1)).offers
    assert offer.job == good.job.id
    assert (await get_execution(store, offer.execution)).token == offer.token
