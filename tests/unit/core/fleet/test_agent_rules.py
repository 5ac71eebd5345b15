"""What a sync of an agent changes, case by case."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest
from msgspec.structs import replace

from holdfast.core.command import Abort, Expire
from holdfast.core.fleet.agents.facts import Run
from holdfast.core.fleet.agents.fencing import fenced
from holdfast.core.fleet.agents.offer_rules import Waits, may_start, next_offer, offer_of
from holdfast.core.fleet.agents.rules import judge
from holdfast.core.fleet.agents.wire import (
    AgentChunk,
    AgentResult,
    AgentRun,
    AgentSync,
    TokenRef,
)
from holdfast.core.fleet.jobs.unstarted import UnstartedEnd
from holdfast.core.fleet.model import (
    ApprovalState,
    Block,
    BlockEffect,
    HostState,
    JobStatus,
)
from holdfast.core.fleet.status import ExecutionKind, shown
from holdfast.core.node_identity import NodeState
from holdfast.core.start_once import RunPhase, phase_of
from holdfast.core.task import FailureKind, Status
from tests.unit.core.fleet.agent_model import COMMAND, IDEMPOTENT, Server, make_job, make_run


def message(**parts: object) -> AgentSync:
    return replace(AgentSync(boot_id="b0", incarnation=1, seq=1), **parts)


def result(state: str, **parts: object) -> AgentResult:
    return replace(AgentResult(id="r", execution="e0", token=1, state=state), **parts)


def offered(**changes: object) -> Server:
    """A server that has offered `e0` under token 1."""
    server = Server([make_run("e0", make_job(**changes), COMMAND)])
    answer = server.sync(message())
    assert answer is not None
    assert [offer.token for offer in answer.offers] == [1]
    return server


def started() -> Server:
    server = offered()
    server.sync(message(accepts=[TokenRef("e0", 1)], seq=2))
    server.sync(message(running=[_run("started")], seq=3))
    assert phase_of(server.runs["e0"].task) is RunPhase.STARTED
    return server


def _run(phase: str) -> AgentRun:
    return AgentRun(execution="e0", token=1, phase=phase)


def stuck() -> Server:
    server = started()
    server.now += 61.0
    server.sweep()
    assert server.runs["e0"].task.status is Status.STUCK
    return server


def test_a_go_follows_an_accept_and_is_repeated() -> None:
    server = offered()
    for seq in (2, 3):
        answer = server.sync(message(accepts=[TokenRef("e0", 1)], seq=seq))
        assert answer is not None
        assert answer.go == [TokenRef("e0", 1)]
    assert server.runs["e0"].execution.go_at == server.now


def test_an_offer_without_an_accept_is_repeated_under_its_token() -> None:
    server = offered()
    answer = server.sync(message(seq=2))
    assert answer is not None
    assert [offer.token for offer in answer.offers] == [1]


def test_an_older_sync_gets_no_offer_and_frees_nothing() -> None:
    server = offered()
    server.sync(message(seq=5))
    answer = server.sync(message(seq=4))
    assert answer is not None
    assert not answer.offers
    assert not answer.probe


def test_a_halted_job_gets_no_go_and_its_offer_is_withdrawn() -> None:
    server = offered()
    server.set_job(halt_json='{"mode":"pause","reason":"lunch"}')
    answer = server.sync(message(accepts=[TokenRef("e0", 1)], seq=2))
    assert answer is not None
    assert not answer.go
    assert [one.token for one in answer.withdraw] == [1]
    run = server.runs["e0"]
    assert (run.task.status, run.task.attempts) == (Status.QUEUED, 0)
    assert server.slot.claim_id is None


def test_an_idempotent_command_comes_with_its_go() -> None:
    server = Server([make_run("e0", make_job(), IDEMPOTENT, attempts=3)])
    answer = server.sync(message())
    assert answer is not None
    assert answer.offers[0].go
    assert phase_of(server.runs["e0"].task) is RunPhase.GO


@pytest.mark.parametrize(
    ("parts", "status", "kind"),
    [
        ({"exit_code": 0}, Status.COMPLETED, None),
        ({"exit_code": 3}, Status.FAILED, FailureKind.ERROR),
        ({"exit_code": None, "signal": 9}, Status.FAILED, FailureKind.ERROR),
        ({"exit_code": None, "timed_out": True}, Status.FAILED, FailureKind.TIMEOUT),
    ],
)
def test_an_exit_ends_the_task_and_frees_the_slot(
    parts: dict[str, object], status: Status, kind: FailureKind | None
) -> None:
    server = started()
    answer = server.sync(message(results=[result("exited", **parts)], seq=4))
    assert answer is not None
    assert answer.acks == ["r"]
    run = server.runs["e0"]
    assert run.task.status is status
    assert (run.task.failure.kind if run.task.failure else None) is kind
    assert server.slot.claim_id is None
    assert run.execution.exit_code == parts["exit_code"]
    assert run.execution.late_json is None


def test_a_start_that_never_was_spends_nothing() -> None:
    server = offered()
    server.sync(message(accepts=[TokenRef("e0", 1)], seq=2))
    server.sync(message(results=[result("never_started")], seq=3, capacity=0))
    run = server.runs["e0"]
    assert (run.task.status, run.task.attempts) == (Status.QUEUED, 0)
    assert run.execution.go_at is None
    assert server.slot.claim_id is None


def test_an_offer_that_is_not_taken_now_comes_later() -> None:
    server = offered()
    answer = server.sync(message(refuses=[result("never_started", reason="full")], seq=2))
    assert answer is not None
    assert not answer.offers
    assert server.runs["e0"].task.due_at > server.now


def test_a_refused_command_has_failed_as_refused() -> None:
    server = offered()
    server.sync(message(refuses=[result("refused", reason="not allowed")], seq=2))
    run = server.runs["e0"]
    assert (run.task.status, run.execution.outcome) == (Status.FAILED, "refused")


def test_an_unknown_end_has_failed_as_lost() -> None:
    server = started()
    server.sync(message(results=[result("unknown")], seq=4))
    failure = server.runs["e0"].task.failure
    assert failure is not None
    assert failure.kind is FailureKind.LOST
    assert server.slot.claim_id is None


def failed_before() -> Server:
    """A server whose host has a further attempt of a command that ended with 3."""
    server = Server([make_run("e0", make_job(), IDEMPOTENT, attempts=4)])
    server.sync(message())
    server.sync(message(results=[result("exited", exit_code=3)], seq=2))
    server.now += 100.0
    server.sync(message(seq=3))
    assert server.runs["e0"].execution.token == 2
    return server


def test_a_failed_command_that_its_agent_refuses_then_ends_as_it_failed() -> None:
    server = failed_before()
    server.sync(message(refuses=[result("refused", token=2, reason="not allowed")], seq=4))
    run = server.runs["e0"]
    seen = shown(run.task, run.execution, run.job.job)
    assert seen.kind is ExecutionKind.FAILED
    assert seen.reason.endswith(
        "it ended with exit code 3; it was not tried again: refused: not allowed"
    )


def test_the_last_known_end_is_shown_after_attempts_that_were_lost() -> None:
    server = failed_before()
    server.sync(message(results=[result("unknown", token=2)], seq=4))
    server.now += 100.0
    server.sync(message(seq=5))
    for _ in range(2):
        server.now += 1_000.0
        server.sweep()
    failure = server.runs["e0"].task.failure
    assert failure is not None
    assert failure.kind is FailureKind.LOST
    assert failure.message.startswith("its runner")
    assert failure.message.endswith("may have run; the attempt before: it ended with exit code 3")


def test_a_run_that_started_cannot_be_taken_back() -> None:
    server = started()
    server.sync(message(results=[result("never_started")], seq=4))
    assert server.runs["e0"].task.status is Status.FAILED


def test_a_host_that_answers_while_its_task_is_stuck_is_reconciled() -> None:
    server = stuck()
    effects = judge(
        server.standing, message(running=[_run("started")], seq=4), server.runs, server.now
    )
    assert [event.kind for event in effects.events] == ["execution.reconciled"]
    server.sync(message(results=[result("exited", exit_code=0)], seq=4))
    assert server.runs["e0"].task.status is Status.COMPLETED


def test_a_result_after_the_task_was_lost_is_kept_beside_it() -> None:
    server = stuck()
    server.now += 901.0
    server.sweep()
    assert server.runs["e0"].task.status is Status.FAILED
    late = message(results=[result("exited", exit_code=0)], seq=4)
    effects = judge(server.standing, late, server.runs, server.now)
    assert [event.kind for event in effects.events] == ["task.late"]
    server.sync(late)
    run = server.runs["e0"]
    assert run.task.status is Status.FAILED
    assert json.loads(run.execution.late_json or "")["exit_code"] == 0
    assert server.slot.claim_id is None


def test_a_cancelled_command_is_stopped_and_its_end_confirmed() -> None:
    server = started()
    server.command("e0", Abort("user:ann", "wrong"))
    assert server.slot.claim_id == "e0"
    answer = server.sync(message(running=[_run("started")], seq=4))
    assert answer is not None
    assert [(one.type, one.token) for one in answer.commands] == [("ABORT", 1)]
    assert server.slot.claim_id == "e0"
    killed = result("exited", exit_code=None, signal=15, killed=True)
    server.sync(message(results=[killed], seq=5))
    run = server.runs["e0"]
    assert (run.task.status, run.execution.outcome) == (Status.ABORTED, "cancelled_killed")
    assert server.slot.claim_id is None


def test_a_cancelled_offer_without_a_go_frees_the_slot_at_once() -> None:
    server = offered()
    server.command("e0", Abort("user:ann", "wrong"))
    answer = server.sync(message(accepts=[TokenRef("e0", 1)], seq=2))
    assert answer is not None
    assert [one.token for one in answer.withdraw] == [1]
    assert server.slot.claim_id is None


def test_a_revoked_token_ends_nothing_and_is_stopped() -> None:
    server = started()
    server.revoke()
    answer = server.sync(message(running=[_run("started")], seq=4))
    assert answer is not None
    assert [one.type for one in answer.commands] == ["ABORT"]
    server.sync(message(results=[result("exited", exit_code=0)], seq=5))
    run = server.runs["e0"]
    assert run.task.status is Status.RUNNING
    assert run.execution.late_json is not None


def test_another_journal_of_the_same_boot_proves_nothing() -> None:
    server = started()
    server.start("j1", "b0")
    sync = message(incarnation=2, results=[result("never_started")])
    server.sync(sync)
    assert server.runs["e0"].task.status is Status.FAILED
    assert server.slot.claim_id == "e0", "its command may still run"


def test_another_journal_of_another_boot_proves_the_end() -> None:
    server = started()
    server.start("j1", "b1")
    answer = server.sync(message(incarnation=2))
    assert answer is not None
    assert answer.probe == [TokenRef("e0", 1)]
    server.sync(message(incarnation=2, seq=2, results=[result("never_started")]))
    failure = server.runs["e0"].task.failure
    assert failure is not None
    assert failure.kind is FailureKind.LOST
    assert server.slot.claim_id is None


def test_a_new_journal_does_not_keep_an_offer_without_a_go() -> None:
    server = offered()
    server.start("j1", "b0")
    answer = server.sync(message(incarnation=2))
    assert answer is not None
    assert [offer.token for offer in answer.offers] == [2]


def test_a_lease_that_ends_before_the_go_frees_the_slot() -> None:
    server = offered()
    server.now += 61.0
    server.command("e0", Expire(), fence=1)
    answer = server.sync(message(seq=2))
    assert answer is not None
    assert [offer.token for offer in answer.offers] == [2]


def test_output_is_placed_until_the_result_came() -> None:
    server = started()
    chunk = AgentChunk(
        execution="e0", token=1, stream="stdout", start=0, data_base64=b64encode(b"hi").decode()
    )
    sync = message(chunks=[chunk], seq=4)
    effects = judge(server.standing, sync, server.runs, server.now)
    assert [(one.fence, one.data) for one in effects.chunks] == [(1, b"hi")]
    server.sync(message(results=[result("exited", exit_code=0)], seq=4))
    effects = judge(server.standing, sync, server.runs, server.now)
    assert not effects.chunks
    assert effects.log_next == {"e0/stdout": 2}


def test_unknown_executions_are_only_acknowledged_and_those_of_other_hosts_not_even() -> None:
    server = started()
    unknown = replace(result("exited", execution="e9", exit_code=0), id="unknown")
    other = replace(server.runs["e0"].execution, host_id="hst_2")
    runs = {"e0": replace(server.runs["e0"], execution=other)}
    sync = message(results=[unknown, result("exited", exit_code=0)], seq=4)
    effects = judge(server.standing, sync, runs, server.now)
    assert effects.acks == ["unknown"]
    assert not effects.log_next
    assert not effects.rulings
    assert not effects.executions


def test_an_old_incarnation_and_a_quarantined_agent_are_fenced() -> None:
    server = offered()
    assert fenced(server.standing, message()) is None
    assert fenced(server.standing, message(incarnation=2)) is not None
    quarantined = replace(server.standing, node_state=NodeState.QUARANTINED)
    assert fenced(quarantined, message()) is not None


@pytest.mark.parametrize(
    "change",
    [{"host_state": HostState.CORDONED}, {"node_state": NodeState.DRAINING}],
)
def test_a_host_out_of_service_gets_no_offer(change: dict[str, object]) -> None:
    server = Server([make_run("e0", make_job(), COMMAND)])
    effects = judge(replace(server.standing, **change), message(), server.runs, server.now)
    assert not effects.may_offer


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, None),
        ({"approval_state": ApprovalState.WAIT_APPROVAL}, Waits),
        ({"approval_state": ApprovalState.REJECTED}, "rejected"),
        ({"approval_state": ApprovalState.EXPIRED}, "expired"),
        ({"halt_json": '{"mode":"pause","reason":""}', "status": JobStatus.PAUSED}, Waits),
        ({"halt_json": '{"mode":"drain","reason":"x"}'}, "skipped"),
        (
            {"halt_json": '{"mode":"drain","reason":"x","cause":"operator"}'},
            "cancelled_before_start",
        ),
        ({"status": JobStatus.CANCELLED}, "skipped"),
        ({"not_after": 1_000.0}, "timeout_delivery"),
    ],
)
def test_the_job_decides_whether_its_executions_start(
    changes: dict[str, object], verdict: object
) -> None:
    ruled = may_start(make_run("e0", make_job(**changes), COMMAND), 1_000.0)
    match ruled:
        case UnstartedEnd():
            assert ruled.kind == verdict
        case Waits():
            assert verdict is Waits
        case None:
            assert verdict is None


def _block(effect: BlockEffect) -> Block:
    return Block(
        id="blk_1",
        project="default",
        host_id="hst_1",
        command_type="*",
        reason="disk swap",
        owner="user:ann",
        effect=effect,
        created_at=1.0,
    )


def test_a_block_refuses_or_holds_and_the_next_execution_is_offered() -> None:
    runs = [make_run(f"e{n}", make_job(), COMMAND) for n in range(3)]
    blocks = {"e0": _block(BlockEffect.REFUSE), "e1": _block(BlockEffect.HOLD)}

    def blocked_by(run: Run) -> Block | None:
        return blocks.get(run.task.id)

    server = Server(runs)
    answer = next_offer(
        runs,
        server.slot,
        standing=server.standing,
        blocked_by=blocked_by,
        environment_of=lambda command: {},
        lease_seconds=60.0,
        now=1_000.0,
    )
    refused, held, granted = answer.executions
    assert (refused.outcome, refused.detail) == (
        "blocked",
        "block blk_1 of user:ann: disk swap, until it is lifted",
    )
    assert held.block_id == "blk_1"
    assert answer.run is not None
    assert offer_of(answer.run, {}, 10.0).execution == granted.task_id == "e2"
    assert answer.slot.claim_id == "e2"
    assert answer.ended == ("blocked",)
