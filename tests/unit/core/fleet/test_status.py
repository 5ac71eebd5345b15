"""The table of statuses: every combination is shown, and a shown status does not go back."""

from __future__ import annotations

import itertools
from collections import defaultdict

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core import codec, command as c
from holdfast.core.command import Instruction
from holdfast.core.decide import Transition, claim, decide
from holdfast.core.fleet.hosts.service import HostService
from holdfast.core.fleet.jobs.status import job_status, may_move as job_may_move
from holdfast.core.fleet.model import (
    JOB_ENDED,
    ApprovalState,
    Execution,
    Job,
    JobStatus,
)
from holdfast.core.fleet.rollout.reducer import HaltMode, begin, halt
from holdfast.core.fleet.rollout.state import WaveState
from holdfast.core.fleet.status import (
    BY_FAILURE,
    BY_PHASE,
    ENDED_KINDS,
    KINDS,
    Bucket,
    ExecutionFacts,
    ExecutionKind as K,
    ExecutionStatus as E,
    bucket,
    ends_as,
    facts_of,
    kind_of,
    may_follow,
    shown,
)
from holdfast.core.start_once import RunPhase, phase_json
from holdfast.core.task import ENDED, Failure, FailureKind, Priority, Status, Task, TaskOptions

NOW = 1_000.0
HOST = "hst_1"


def make_task(**changes: object) -> Task:
    options = TaskOptions(pinned=True, lost_after_seconds=900.0)
    task = Task(
        id="t",
        type="fleet.run",
        queue="fleet",
        priority=Priority.NORMAL,
        status=Status.BLOCKED,
        payload_json="{}",
        metadata_json=None,
        options_json=msgspec.json.encode(options).decode(),
        attempts=0,
        max_attempts=3,
        deaths=0,
        version=1,
        fence=0,
        created_at=NOW,
        updated_at=NOW,
        due_at=NOW,
        assigned_to=HOST,
    )
    return replace(task, **changes)


def make_execution(**changes: object) -> Execution:
    return replace(Execution(task_id="t", job_id="j", nth=0, host_id=HOST, host="web-1"), **changes)


def make_job(**changes: object) -> Job:
    job = Job(
        id="j",
        project="default",
        external_id=None,
        request_hash="h",
        spec_json="{}",
        digest="d1:x",
        approval_state=ApprovalState.NOT_REQUIRED,
        hosts=1,
        created_by="user:ann",
        created_at=NOW,
        started_at=NOW,
        not_after=NOW + 3_600,
    )
    return replace(job, **changes)


def failed(kind: FailureKind) -> Task:
    failure = codec.dumps(Failure(kind, "boom"))
    return make_task(status=Status.FAILED, failure_json=failure, attempts=1)


TABLE: list[tuple[Task, Execution, Job, E, K]] = [
    (make_task(), make_execution(), make_job(started_at=None), E.NEW, K.NEW),
    (
        make_task(),
        make_execution(),
        make_job(approval_state=ApprovalState.WAIT_APPROVAL),
        E.NEW,
        K.AWAITING_APPROVAL,
    ),
    (make_task(), make_execution(), make_job(), E.NEW, K.AWAITING_WAVE),
    (make_task(status=Status.QUEUED), make_execution(), make_job(), E.QUEUED, K.QUEUED),
    (
        make_task(status=Status.QUEUED, held_by="user:ann: later"),
        make_execution(),
        make_job(),
        E.QUEUED,
        K.HELD,
    ),
    (
        make_task(status=Status.QUEUED, held_by="block:blk_1: disk swap"),
        make_execution(block_id="blk_1"),
        make_job(),
        E.BLOCKED,
        K.HELD_BY_BLOCK,
    ),
    (make_task(status=Status.PAUSED), make_execution(), make_job(), E.QUEUED, K.HELD),
    *(
        (
            make_task(status=Status.RUNNING, progress_json=phase_json(phase)),
            make_execution(),
            make_job(),
            E.QUEUED if kind in (K.OFFERED, K.ACCEPTED) else E.RUNNING,
            kind,
        )
        for phase, kind in BY_PHASE.items()
    ),
    (make_task(status=Status.STUCK), make_execution(), make_job(), E.RUNNING, K.UNKNOWN),
    (make_task(status=Status.COMPLETED), make_execution(), make_job(), E.SUCCESS, K.SUCCEEDED),
    (failed(FailureKind.ERROR), make_execution(), make_job(), E.FAILED, K.FAILED),
    (failed(FailureKind.LOST), make_execution(), make_job(), E.FAILED, K.LOST),
    (failed(FailureKind.TIMEOUT), make_execution(), make_job(), E.TIMEOUT, K.TIMEOUT_EXEC),
    (failed(FailureKind.ERROR), make_execution(outcome="refused"), make_job(), E.FAILED, K.REFUSED),
    *(
        (
            make_task(status=Status.ABORTED),
            make_execution(outcome=kind.value),
            make_job(),
            KINDS[kind].status,
            kind,
        )
        for kind in K
        if Status.ABORTED in KINDS[kind].tasks
    ),
    (
        make_task(status=Status.ABORTED),
        make_execution(),
        make_job(),
        E.CANCELLED,
        K.CANCELLED_BEFORE_START,
    ),
    (
        make_task(status=Status.ABORTED),
        make_execution(go_at=NOW),
        make_job(),
        E.CANCELLED,
        K.CANCELLED_UNCONFIRMED,
    ),
]


@pytest.mark.parametrize(("task", "execution", "job", "status", "kind"), TABLE)
def test_the_rows_of_the_table(
    task: Task, execution: Execution, job: Job, status: E, kind: K
) -> None:
    found = shown(task, execution, job)
    assert (found.status, found.kind) == (status, kind)
    assert found.reason
    assert "\n" not in found.reason
    assert (bucket(task, execution) is None) == (kind not in ENDED_KINDS)
    assert bucket(task, execution) == KINDS[kind].bucket


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_execution_whose_attempt_failed_ends_as_that_failure(kind: K) -> None:
    """A command that ran is never shown as one that did not start."""
    waiting = make_task(status=Status.QUEUED)
    assert ends_as(waiting, kind, "why") == (kind, "why")
    for failure, shown_as in BY_FAILURE.items():
        tried = make_task(
            status=Status.QUEUED, attempts=1, failure_json=codec.dumps(Failure(failure, "boom"))
        )
        ended, detail = ends_as(tried, kind, "why")
        assert (ended, detail) == (shown_as, "boom; it was not tried again: why")
        aborted = replace(tried, status=Status.ABORTED)
        assert shown(aborted, make_execution(outcome=ended.value), make_job()).kind is shown_as


def test_every_combination_has_one_kind_that_fits_its_task() -> None:
    outcomes = [None, "nonsense", *K]
    combinations = itertools.product(
        Status, RunPhase, [None, *FailureKind], outcomes, [False, True], [(0, 0), (1, 0), (1, 1)],
        [None, "user:ann", "block:blk_1"],
        [
            ("ready", False, False), ("ready", True, False), ("silent", True, True),
            ("closed", True, True), ("ready", True, True),
        ],
    )  # fmt: skip
    seen = set()
    for status, phase, failure, outcome, has_go, flags, held_by, host in combinations:
        facts = ExecutionFacts(
            task_status=status,
            phase=phase,
            failure_kind=failure,
            outcome=outcome,
            has_go=has_go,
            is_approved=bool(flags[0]),
            is_started=bool(flags[1]),
            held_by=held_by,
            service=HostService(host[0]),
            host_busy=host[1],
            is_away=host[2],
        )
        kind = kind_of(facts)
        seen.add(kind)
        assert (kind in ENDED_KINDS) == (status in ENDED)
        if status in ENDED and outcome in ENDED_KINDS and status in KINDS[K(outcome)].tasks:
            assert kind == outcome
    assert seen == set(K)


def test_every_kind_has_a_row_and_every_status_and_bucket_a_kind() -> None:
    assert set(KINDS) == set(K)
    assert {row.status for row in KINDS.values()} == set(E)
    assert {row.bucket for row in KINDS.values()} == {None, *Bucket}
    by_bucket = defaultdict(set)
    for kind in ENDED_KINDS:
        by_bucket[KINDS[kind].bucket].add(KINDS[kind].status)
    assert by_bucket[Bucket.SUCCESS] == {E.SUCCESS}
    assert by_bucket[Bucket.UNREACHABLE] == {E.FAILED, E.TIMEOUT}


def test_the_host_is_named_while_the_execution_waits() -> None:
    task = make_task(status=Status.QUEUED)
    rows = [
        (HostService.READY, False, K.QUEUED),
        (HostService.READY, True, K.HOST_BUSY),
        (HostService.SILENT, True, K.HOST_UNREACHABLE),
        (HostService.CLOSED, True, K.HOST_CLOSED),
    ]
    for service, busy, kind in rows:
        found = shown(task, make_execution(), make_job(), service=service, host_busy=busy)
        assert found.kind is kind


def test_the_reason_is_that_of_the_execution() -> None:
    blocked = make_execution(outcome="blocked", detail="blk_1: disk swap, by ann")
    aborted = make_task(status=Status.ABORTED, held_by="server: halted")
    assert shown(aborted, blocked, make_job()).reason == "blk_1: disk swap, by ann"
    assert "server: halted" in shown(aborted, make_execution(), make_job()).reason
    assert "boom" in shown(failed(FailureKind.ERROR), make_execution(), make_job()).reason
    again = make_task(
        status=Status.QUEUED, attempts=1, failure_json=codec.dumps(Failure(FailureKind.ERROR, "x"))
    )
    assert "attempt 2 of 3" in shown(again, make_execution(), make_job()).reason


commands = st.sampled_from(
    [
        *("claim", "accept", "go", "start"),
        c.Admit(),
        c.Complete("0"),
        c.Fail(Failure(FailureKind.ERROR, "boom")),
        c.Fail(Failure(FailureKind.TIMEOUT, "slow"), final=True),
        c.Release("drain"),
        c.Expire(),
        c.Abort("user:ann", "r"),
        c.Pause("user:ann", "r"),
        c.Pause("block:blk_1", "r"),
        c.Resume("user:ann", "r"),
    ]
)
PHASES = {"accept": RunPhase.ACCEPTED, "go": RunPhase.GO, "start": RunPhase.STARTED}


@given(st.lists(commands, max_size=25))
def test_a_shown_status_never_goes_back(moves: list[c.Command | str]) -> None:
    task, now = make_task(), NOW
    job = make_job()
    last = kind_of(facts_of(task, make_execution(), job))
    for move in moves:
        now += 1_000.0
        task = moved(task, move, now)
        kind = kind_of(facts_of(task, make_execution(), job))
        assert may_follow(last, kind), (last, kind)
        last = kind


def moved(task: Task, move: c.Command | str, now: float) -> Task:
    if move == "claim":
        if task.status is not Status.QUEUED or task.held_by is not None:
            return task
        return claim(task, node=HOST, lease_seconds=60, now=now, claim_id="t#1").after
    if isinstance(move, str):
        if task.status is not Status.RUNNING:
            return task
        move = c.Report(progress_json=phase_json(PHASES[move]))
    if isinstance(move, c.Report) and task.progress_json is not None:
        order = list(RunPhase)
        wanted = next(p for p in order if phase_json(p) == move.progress_json)
        if order.index(wanted) < order.index(facts_of(task, make_execution(), make_job()).phase):
            return task
    ruling = decide(task, Instruction("t", move, fence=task.fence), now)
    return ruling.after if isinstance(ruling, Transition) else task


# -- jobs --------------------------------------------------------------------------------------------


def test_the_status_of_a_job() -> None:
    fresh = begin(3)
    running = replace(fresh, waves=(WaveState(3, NOW),))
    paused = halt(running, HaltMode.PAUSE, reason="r", actor="ann")
    halting = halt(running, HaltMode.DRAIN, reason="r", actor="ann")
    ended = replace(running, finished=JobStatus.PARTIAL)
    free, waits = ApprovalState.APPROVED, ApprovalState.WAIT_APPROVAL
    rows = [
        (free, None, JobStatus.NEW),
        (free, fresh, JobStatus.NEW),
        (waits, None, JobStatus.WAIT_APPROVAL),
        (ApprovalState.VOID, None, JobStatus.WAIT_APPROVAL),
        (ApprovalState.REJECTED, None, JobStatus.REJECTED),
        (ApprovalState.EXPIRED, None, JobStatus.EXPIRED),
        (free, running, JobStatus.RUNNING),
        (waits, running, JobStatus.RUNNING),
        (ApprovalState.VOID, running, JobStatus.RUNNING),
        (free, paused, JobStatus.PAUSED),
        (free, halting, JobStatus.HALTING),
        (ApprovalState.REJECTED, halting, JobStatus.HALTING),
        (free, ended, JobStatus.PARTIAL),
    ]
    for approval, state, status in rows:
        assert job_status(approval, state) is status


def test_every_combination_of_a_job_has_a_status_and_an_ended_job_stays() -> None:
    states = [None, begin(1), *(halt(begin(1), m, reason="r", actor="a") for m in HaltMode)]
    for approval, state in itertools.product(ApprovalState, states):
        assert job_status(approval, state) in JobStatus
    for before, after in itertools.product(JOB_ENDED, JobStatus):
        assert job_may_move(before, after) == (before is after)
    assert not job_may_move(JobStatus.HALTING, JobStatus.RUNNING)


def test_no_change_of_the_approval_takes_a_started_job_back() -> None:
    running = replace(begin(1), waves=(WaveState(1, NOW),))
    paused = halt(running, HaltMode.PAUSE, reason="r", actor="ann")
    open_states = (ApprovalState.WAIT_APPROVAL, ApprovalState.VOID, ApprovalState.APPROVED)
    for before, after in itertools.product(open_states, open_states):
        for state, then in itertools.product((running, paused), (running, paused)):
            assert job_may_move(job_status(before, state), job_status(after, then))
            assert job_status(after, then) is not JobStatus.WAIT_APPROVAL
