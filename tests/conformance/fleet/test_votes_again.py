"""Votes and orders that come again, and who may not vote whichever request asks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.fleet.approvals.approval import Person, excluded_of
from holdfast.core.fleet.approvals.rules import ApprovalRule, VoterGroup
from holdfast.core.fleet.commands.command_type import SHIPPED, CommandType
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.model import ApprovalState
from holdfast.core.fleet.rules import FleetRules
from holdfast.errors import HoldfastError
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.control import JobControl, RolloutChange
from holdfast.queue.by import By
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT

BOB = Person("user:bob", frozenset({"role:approver", "role:admin", "role:operator"}))


def by(p: Person) -> By:
    return By(p.name, "looks right")


async def test_the_same_reject_again_gets_the_same_answer(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    job = (await fleet.create(names, command_type="shell", command="true")).job
    approvals = Approvals(store, fleet.rules, fleet.bus)
    first = await approvals.reject(job.id, BOB, by(BOB))
    again = await approvals.reject(job.id, BOB, by(BOB))
    assert again.is_repeat
    assert again.job.approval_state == first.job.approval_state


async def test_the_same_approval_again_after_the_end_gets_the_same_answer(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    job = (await fleet.create(names, command_type="shell", command="true")).job
    approvals = Approvals(store, fleet.rules, fleet.bus)
    await approvals.approve(job.id, BOB, by(BOB))
    await fleet.run_out(job.id)
    again = await approvals.approve(job.id, BOB, by(BOB))
    assert again.is_repeat


async def test_the_same_abort_again_after_the_end_changes_nothing(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    job = (await fleet.create(names, command_type="shell", command="true")).job
    control = JobControl(store, fleet.rules, fleet.bus)
    await control.abort(job.id, BY)
    again = await control.abort(job.id, BY)
    assert again.is_repeat


async def test_the_last_editor_does_not_approve(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(9)
    job = (await fleet.create(names, command_type="shell", command="true")).job
    await JobControl(store, fleet.rules, fleet.bus).set(
        job.id, RolloutChange(max_in_flight=1), by(BOB)
    )
    with pytest.raises(HoldfastError):
        await Approvals(store, fleet.rules, fleet.bus).approve(job.id, BOB, by(BOB))


async def test_an_edit_takes_back_the_vote_of_its_editor(store: Store) -> None:
    rule = ApprovalRule(name="two", all_of=(VoterGroup(count=2, from_=("role:approver",)),))
    fleet = FleetBench(store, FleetRules(approval_rules=(rule,)))
    names = await fleet.add_hosts(9)
    job = (await fleet.create(names, command_type="shell", command="true")).job
    approvals = Approvals(store, fleet.rules, fleet.bus)
    await approvals.approve(job.id, BOB, by(BOB))
    control = JobControl(store, fleet.rules, fleet.bus)
    await control.set(job.id, RolloutChange(max_in_flight=1), by(BOB), excluded_voters=["user:eve"])
    view = await approvals.get(job.id)
    assert view.tally is not None
    assert sum(view.tally.have.values()) == 0
    assert view.request is not None
    assert {"user:bob", "user:eve"} <= excluded_of(view.request)


async def test_the_owner_of_the_token_does_not_approve_after_a_drift(store: Store) -> None:
    free = FleetRules(
        command_types=SHIPPED
        | {"deploy": CommandType(name="deploy", argv=("true",), approval="none")}
    )
    strict = replace(
        free, command_types=SHIPPED | {"deploy": CommandType(name="deploy", argv=("true", "x"))}
    )
    fleet = FleetBench(store, free)
    names = await fleet.add_hosts(2)
    made = await fleet.jobs.create(
        JobRequest(command_type="deploy", hosts=names),
        By("token:ci", "r"),
        excluded_voters=("user:bob",),
    )
    assert made.job.approval_state is ApprovalState.NOT_REQUIRED
    later = FleetBench(store, strict)  # the server was started again with a stricter definition
    job = await later.plan(made.job.id)
    assert job.approval_state is ApprovalState.WAIT_APPROVAL
    with pytest.raises(HoldfastError):
        await Approvals(store, strict, later.bus).approve(job.id, BOB, by(BOB))


@pytest.mark.parametrize("change", [{"address": "root@203.0.113.66"}, {"driver": "agent"}])
async def test_an_approved_job_does_not_follow_a_host_to_another_machine(
    store: Store, change: dict[str, Any]
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1, driver="ssh", address="root@10.0.0.1")
    job = (await fleet.create(names, command_type="shell", command="rotate-keys")).job
    await Approvals(store, fleet.rules, fleet.bus).approve(job.id, BOB, by(BOB))
    hosts = Hosts(store)
    await hosts.edit((await hosts.get(PROJECT, names[0])).id, BY, **change)
    after = await fleet.plan(job.id)
    assert after.approval_state is ApprovalState.WAIT_APPROVAL
    assert after.digest != job.digest
