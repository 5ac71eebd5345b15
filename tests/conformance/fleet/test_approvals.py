"""Approvals: four eyes, one decision, bound to what was asked; nothing starts without one."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from holdfast.clock import VirtualClock
from holdfast.core.errors import ApprovalNeeded, ApprovalVoid, Forbidden, SelfApproval
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.approvals.rules import ApprovalRule, VoterGroup
from holdfast.core.fleet.model import ApprovalState, Job, JobStatus
from holdfast.errors import AlreadyDecided, HoldfastError, IllegalTransition, InvalidInput
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.job_rows import counts_of
from holdfast.fleet.retention import FleetPruning, FleetRetention
from holdfast.queue.by import By
from holdfast.store.audit import AuditStore
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.job_support import RULES, FleetBench
from tests.conformance.fleet.support import audited, events
from tests.conformance.tasks.helpers import check_counters

APPROVER = frozenset({"role:approver"})
ANN = Person("user:ann", APPROVER)
BOB = Person("user:bob", APPROVER)
CAT = Person("user:cat", APPROVER)
YES = By("user:bob", "change 118")
NO = By("user:bob", "not today")


async def asked(fleet: FleetBench, hosts: int = 3) -> Job:
    """A job that waits for an approval. `user:ann` has asked for it."""
    names = await fleet.add_hosts(hosts)
    job = (await fleet.create(names, command_type="shell", command="true")).job
    assert job.approval_state is ApprovalState.WAIT_APPROVAL
    return job


def approvals_of(fleet: FleetBench) -> Approvals:
    return Approvals(fleet.store, fleet.rules, fleet.bus)


async def test_an_approved_job_starts(store: Store) -> None:
    fleet = FleetBench(store)
    job = await asked(fleet)
    view = await approvals_of(fleet).approve(job.id, BOB, YES, expect_digest=job.digest)
    assert view.job.approval_state is ApprovalState.APPROVED
    assert view.request is not None
    assert view.request.state == "approved"
    assert await fleet.publish() == 1
    assert (await fleet.run_out(job.id)).status is JobStatus.SUCCESS
    assert "job.approved" in [event.kind for event in await events(store, "job.")]


async def test_the_requester_and_others_without_the_role_do_not_vote(store: Store) -> None:
    fleet = FleetBench(store)
    job = await asked(fleet)
    approvals = approvals_of(fleet)
    with pytest.raises(SelfApproval):
        await approvals.approve(job.id, ANN, By("user:ann", "mine"))
    with pytest.raises(Forbidden):
        await approvals.approve(job.id, Person("user:eve"), By("user:eve", "please"))
    with pytest.raises(InvalidInput, match="reason"):
        await approvals.approve(job.id, BOB, By("user:bob"))
    assert (await fleet.job(job.id)).approval_state is ApprovalState.WAIT_APPROVAL


async def test_a_rejection_ends_the_executions_in_its_transaction(store: Store) -> None:
    fleet = FleetBench(store)
    job = await asked(fleet)
    view = await approvals_of(fleet).reject(job.id, BOB, NO)
    assert view.job.approval_state is ApprovalState.REJECTED
    assert await fleet.statuses(job.id) == {"aborted": 3}
    assert await fleet.outcomes(job.id) == {"rejected": 3}
    ended = await fleet.plan(job.id)
    assert (ended.status, counts_of(ended)) == (JobStatus.REJECTED, {"rejected": 3})
    with pytest.raises(AlreadyDecided):
        await approvals_of(fleet).approve(job.id, CAT, By("user:cat", "yes"))
    await check_counters(store)


async def test_the_same_vote_again_gets_the_same_answer(store: Store) -> None:
    fleet = FleetBench(store)
    job = await asked(fleet)
    approvals = approvals_of(fleet)
    await approvals.approve(job.id, BOB, YES)
    again = await approvals.approve(job.id, BOB, YES)
    assert again.is_repeat
    assert len(await events(store, "job.approved")) == 1
    with pytest.raises(AlreadyDecided):
        await approvals.reject(job.id, CAT, By("user:cat", "no"))


async def test_of_an_approval_and_a_rejection_at_once_one_counts(shared_bench: Bench) -> None:
    stores = [await shared_bench.open() for _ in range(2)]
    fleets = [FleetBench(store) for store in stores]
    job = await asked(fleets[0])
    answers = await asyncio.gather(
        approvals_of(fleets[0]).approve(job.id, BOB, YES),
        approvals_of(fleets[1]).reject(job.id, CAT, By("user:cat", "no")),
        return_exceptions=True,
    )
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(refused) == 1
    assert isinstance(refused[0], AlreadyDecided)
    state = (await fleets[0].job(job.id)).approval_state
    statuses = await fleets[0].statuses(job.id)
    if state is ApprovalState.APPROVED:
        assert statuses == {"blocked": 3}
    else:
        assert state is ApprovalState.REJECTED
        assert statuses == {"aborted": 3}


async def test_two_of_three_have_to_approve(store: Store) -> None:
    rule = ApprovalRule(name="two", all_of=(VoterGroup(count=2, from_=("role:approver",)),))
    fleet = FleetBench(store, replace(RULES, approval_rules=(rule,)))
    job = await asked(fleet)
    approvals = approvals_of(fleet)
    first = await approvals.approve(job.id, BOB, YES)
    assert first.job.approval_state is ApprovalState.WAIT_APPROVAL
    assert (await approvals.open())[0].job_id == job.id
    second = await approvals.approve(job.id, CAT, By("user:cat", "fine"))
    assert second.job.approval_state is ApprovalState.APPROVED
    assert await approvals.open() == []
    assert len(await events(store, "job.voted")) == 1


async def test_a_vote_is_withdrawn_before_the_start_only(store: Store) -> None:
    fleet = FleetBench(store)
    job = await asked(fleet)
    approvals = approvals_of(fleet)
    await approvals.approve(job.id, BOB, YES)
    view = await approvals.withdraw(job.id, BOB, By("user:bob", "wait"))
    assert view.job.approval_state is ApprovalState.WAIT_APPROVAL
    await fleet.publish()
    assert await fleet.statuses(job.id) == {"blocked": 3}
    await approvals.approve(job.id, BOB, YES)
    await fleet.plan(job.id)
    with pytest.raises(IllegalTransition):
        await approvals.withdraw(job.id, BOB, By("user:bob", "too late"))


async def test_a_request_expires_with_its_job(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    job = await asked(fleet)
    approvals = approvals_of(fleet)
    assert await approvals.expire_due() == 0
    clock.pause(fleet.rules.approval_expires_seconds + 1.0)
    with pytest.raises(AlreadyDecided):
        await approvals.approve(job.id, BOB, YES)
    assert await approvals.expire_due() == 1
    ended = await fleet.plan(job.id)
    assert (ended.status, ended.approval_state) == (JobStatus.EXPIRED, ApprovalState.EXPIRED)
    assert counts_of(ended) == {"expired": 3}
    assert await approvals.expire_due() == 0


async def test_a_changed_command_type_makes_the_request_void(store: Store) -> None:
    fleet = FleetBench(store)
    job = await asked(fleet)
    other = _with_other_shell(fleet)
    with pytest.raises(ApprovalVoid):
        await approvals_of(other).approve(job.id, BOB, YES)
    now = await fleet.job(job.id)
    assert now.digest != job.digest
    assert now.approval_id != job.approval_id
    with pytest.raises(ApprovalVoid):
        await approvals_of(other).approve(job.id, BOB, YES, expect_digest=job.digest)
    await approvals_of(other).approve(job.id, BOB, YES, expect_digest=now.digest)
    assert (await other.plan(job.id)).started_at is not None
    assert len(await events(store, "job.void")) == 1


async def test_a_change_after_the_approval_keeps_the_job_from_starting(store: Store) -> None:
    fleet = FleetBench(store)
    job = await asked(fleet)
    await approvals_of(fleet).approve(job.id, BOB, YES)
    other = _with_other_shell(fleet)
    await other.publish()
    now = await fleet.job(job.id)
    assert (now.approval_state, now.started_at) == (ApprovalState.WAIT_APPROVAL, None)
    assert await fleet.statuses(job.id) == {"blocked": 3}


def _with_other_shell(fleet: FleetBench) -> FleetBench:
    types = dict(fleet.rules.command_types)
    types["shell"] = replace(types["shell"], timeout_seconds=5.0)
    return FleetBench(fleet.store, replace(fleet.rules, command_types=types))


async def test_break_glass_starts_a_small_job_once_until_it_is_reviewed(store: Store) -> None:
    fleet = FleetBench(store)
    approvals = approvals_of(fleet)
    job = await asked(fleet)
    root = By("user:root", "the site is down")
    view = await approvals.break_glass(job.id, "INC-1", root)
    assert view.job.approval_state is ApprovalState.NOT_REQUIRED
    assert (await approvals.break_glass(job.id, "INC-1", root)).is_repeat
    [event] = await events(store, "job.break_glass")
    assert event.data["ticket"] == "INC-1"
    assert (await fleet.run_out(job.id)).status is JobStatus.SUCCESS
    other = (await fleet.create(["web-001"], command_type="shell", command="id")).job
    with pytest.raises(ApprovalNeeded):
        await approvals.break_glass(other.id, "INC-2", root)
    with pytest.raises(SelfApproval):
        await approvals.review(job.id, root)
    await approvals.review(job.id, By("user:bob", "looked at it"))
    assert await approvals.unreviewed("default") == []
    await approvals.break_glass(other.id, "INC-2", root)


async def test_two_uses_of_break_glass_at_once_are_one(store: Store) -> None:
    fleet = FleetBench(store)
    approvals = approvals_of(fleet)
    first = await asked(fleet)
    second = (await fleet.create(["web-001"], command_type="shell", command="id")).job
    uses = [
        approvals.break_glass(job.id, "INC-1", By("user:root", "down")) for job in (first, second)
    ]
    ends = await asyncio.gather(*uses, return_exceptions=True)
    assert sorted(isinstance(end, ApprovalNeeded) for end in ends) == [False, True]


async def test_a_use_that_is_not_reviewed_is_not_forgotten(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    approvals = approvals_of(fleet)
    job = await asked(fleet)
    await approvals.break_glass(job.id, "INC-1", By("user:root", "down"))
    await fleet.run_out(job.id)
    pruning = FleetPruning(store, FleetRetention(job_seconds=10.0))
    clock.pause(100.0)
    await pruning.prune()
    assert [one.id for one in await approvals.unreviewed("default")] == [job.id]
    await approvals.review(job.id, By("user:bob", "looked at it"))
    await pruning.prune()
    assert await fleet.rows("job") == []


async def test_break_glass_reaches_few_hosts_only(store: Store) -> None:
    fleet = FleetBench(store, replace(RULES, break_glass_max_hosts=2))
    job = await asked(fleet)
    with pytest.raises(HoldfastError, match="at most 2"):
        await approvals_of(fleet).break_glass(job.id, "INC-1", By("user:root", "down"))


async def test_the_audit_of_a_vote_is_in_its_transaction(store: Store) -> None:
    fleet = FleetBench(store)
    job = await asked(fleet)
    by = replace(audited("vote"), actor="user:bob", reason="fine")
    await approvals_of(fleet).approve(job.id, BOB, by)
    assert (await AuditStore(store).head()).seq == 1


async def test_a_vote_that_is_withdrawn_after_the_time_of_its_request_ends_the_job(
    store: Store, clock: VirtualClock
) -> None:
    """The request was approved, and nothing has planned the job since."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    fields = {"command_type": "shell", "command": "true", "not_after_seconds": 86_400.0}
    job = (await fleet.create(names, **fields)).job
    approvals = approvals_of(fleet)
    await approvals.approve(job.id, BOB, YES)
    clock.pause(fleet.rules.approval_expires_seconds + 1.0)
    view = await approvals.withdraw(job.id, BOB, By("user:bob", "wait"))
    assert view.job.approval_state is ApprovalState.EXPIRED
    ended = await fleet.plan(job.id)
    assert (ended.status, counts_of(ended)) == (JobStatus.EXPIRED, {"expired": 2})
    assert [event.kind for event in await events(store, "job.")][-3:] == [
        "job.voted",
        "job.rejected",
        "job.finished",
    ]
