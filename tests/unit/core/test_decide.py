"""The state machine: the rules hold for any commands in any order."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from holdfast.core import command as c
from holdfast.core.affinity import Affinity
from holdfast.core.command import Command, Instruction
from holdfast.core.decide import Refusal, Transition, claim, decide, enqueued
from holdfast.core.event import Event, Position, status_after
from holdfast.core.gate import HELD, gate_of
from holdfast.core.loop_block import LoopBlock
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import submit
from holdfast.core.task import (
    ENDED,
    LEASED,
    TERMINAL,
    TRANSITIONS,
    Failure,
    FailureKind,
    Status,
    Task,
    TaskOptions,
    may_move,
)

NOW = 1_800_000_000.0
seconds = st.floats(0, 1000, allow_nan=False)
words = st.sampled_from(["", "a reason"])
affinities = st.none() | st.builds(Affinity, seconds, st.just(frozenset({"node"})))
failures = st.builds(
    Failure, st.sampled_from(FailureKind), st.sampled_from(["boom", ""]), fingerprint=st.just("f")
)
runner_commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(c.Complete, st.sampled_from(["null", '{"x":1}'])),
    st.builds(c.Fail, failures, final=st.booleans()),
    st.builds(c.Snooze, seconds, words),
    st.builds(c.Cancel, words),
    st.builds(c.Release, words),
    st.builds(
        c.Report,
        st.sampled_from([None, "0.5"]),
        st.sampled_from([None, "{}"]),
        st.booleans(),
    ),
    st.builds(c.GetStuck, words),
    st.builds(c.Suspend, st.just("node:n"), words, st.sampled_from([None, "dec_1"])),
)
other_commands: st.SearchStrategy[Command] = st.one_of(
    st.just(c.Expire()),
    st.just(c.Admit()),
    st.builds(c.Settle, st.just("p"), st.sampled_from(Status), st.booleans(), words),
    st.builds(c.Revive, st.just("p"), st.integers(1, 3)),
    st.builds(c.Abort, st.just("ann"), words),
    st.builds(c.Pause, st.just("ann"), words),
    st.builds(c.Resume, st.just("ann"), affinity=affinities),
    st.builds(c.RetryTask, st.just("ann"), words),
    st.builds(c.Reassign, st.just("ann"), st.just("node-b"), st.none() | seconds),
    st.builds(c.Unlock, st.just("ann"), words),
    st.builds(
        c.Force,
        st.just("ann"),
        st.sampled_from(Status),
        words,
        st.sampled_from([None, "1"]),
        st.none() | st.builds(c.Evidence, st.integers(0, 9), st.just("1")),
    ),
    st.just(c.Stall()),
    st.builds(c.Unassign, st.booleans()),
    st.builds(c.Wake, st.just("dec_1"), st.just("ann"), st.just("decided"), affinities),
    st.builds(c.Replay, st.just("ann"), seconds, st.sampled_from([None, "2"])),
    st.builds(
        c.Edit,
        st.just("ann"),
        st.sampled_from([None, "3"]),
        metadata_json=st.sampled_from([None, '{"a":1}']),
    ),
)


class Life(RuleBasedStateMachine):
    """One task under all commands."""

    @initialize(
        waits=st.integers(0, 2),
        max_attempts=st.integers(1, 3),
        max_deaths=st.integers(1, 3),
        progress=st.sampled_from([None, 5.0]),
    )
    def born(self, waits: int, max_attempts: int, max_deaths: int, progress: float | None) -> None:
        request = EnqueueRequest(
            type="work",
            max_attempts=max_attempts,
            options=TaskOptions(max_deaths=max_deaths),
            progress_timeout_seconds=progress,
            project="shop",
        )
        self.now = NOW
        task = submit(request, task_id="t", now=NOW).task
        if waits:
            task = replace(task, status=Status.BLOCKED, waiting_on=waits)
        self.task: Task = task
        self.old_fences: set[int] = set()
        assert enqueued(task, NOW).kind == "task.enqueued"

    @rule(delta=st.floats(0, 20, allow_nan=False))
    def wait(self, delta: float) -> None:
        self.now += delta

    @precondition(lambda self: self.task.status is Status.QUEUED and self.task.gate is None)
    @rule()
    def claimed(self) -> None:
        before = self.task
        self.move(claim(before, node="node", lease_seconds=9.0, now=self.now))
        assert self.task.fence == before.fence + 1
        assert self.task.attempts == before.attempts + 1

    @rule(command=runner_commands)
    def runner_command(self, command: Command) -> None:
        self.ask(Instruction("t", command, fence=self.task.fence))

    @rule(command=runner_commands, fence=st.integers(-3, 20))
    def command_with_another_fence(self, command: Command, fence: int) -> None:
        if fence != self.task.fence:
            ruling = decide(self.task, Instruction("t", command, fence=fence), self.now)
            assert isinstance(ruling, Refusal)
            assert ruling.code == "lease-lost"
            is_result = isinstance(command, c.Complete | c.Fail)
            assert [event.kind for event in ruling.events] == (["task.late"] if is_result else [])

    @rule(command=other_commands)
    def other_command(self, command: Command) -> None:
        self.ask(Instruction("t", command, fence=self.task.fence))

    @rule(command=other_commands)
    def other_command_with_an_old_version(self, command: Command) -> None:
        instruction = Instruction(
            "t", command, fence=self.task.fence, version=self.task.version - 1
        )
        assert isinstance(decide(self.task, instruction, self.now), Refusal)

    def ask(self, instruction: Instruction) -> None:
        ruling = decide(self.task, instruction, self.now)
        if isinstance(ruling, Refusal):
            assert ruling.current == self.task
            assert ruling.message
            return
        command = instruction.command
        costs_nothing = c.Snooze | c.Release | c.Pause | c.Expire | c.Suspend | c.Unlock
        if self.task.status in LEASED and isinstance(command, costs_nothing):
            assert ruling.after.attempts == self.task.attempts - 1, "costs no attempt"
        self.move(ruling, is_report=isinstance(command, c.Report))

    def move(self, ruling: Transition, *, is_report: bool = False) -> None:
        before, after = ruling.before, ruling.after
        assert before == self.task
        assert before.status not in TERMINAL, "terminal is final"
        assert after.version > before.version or is_report
        if is_report and before.status is after.status:
            assert after.version == before.version, "an operator may still change what it read"
        assert after.fence >= before.fence
        if after.status is not before.status:
            assert may_move(before.status, after.status) or self.steps_between(before, after)
            assert ruling.events, "every change of status has an event"
        for event in ruling.events:
            assert (event.task_id, event.at) == ("t", self.now)
            assert (event.project, event.version) == ("shop", after.version), event.kind
        taken_away = before.status in LEASED and after.status not in LEASED
        by_itself = after.status in ENDED or after.due_at >= self.now
        if taken_away and not by_itself:
            assert after.fence > before.fence
        self.task = after

    def steps_between(self, before: Task, after: Task) -> bool:
        """A stuck task runs again before it ends; a forced one passes every status in between."""
        return after.status is Status.COMPLETED or before.status is Status.STUCK

    @invariant()
    def the_task_is_consistent(self) -> None:
        if not hasattr(self, "task"):
            return
        task = self.task
        assert 0 <= task.attempts <= task.max_attempts
        assert 0 <= task.deaths <= task.options.max_deaths
        assert (task.status in LEASED) == (task.lease_until is not None)
        # A paused task keeps the node that ran it, which it prefers when it goes on.
        has_node = task.status in LEASED or task.status is Status.PAUSED
        assert has_node == (task.node is not None)
        assert task.progress_due_at is None or task.status is Status.RUNNING
        if task.status is Status.QUEUED:
            reserved = [f"!node:{task.assigned_to}", f"!prefers:{task.assigned_to}"]
            assert task.gate in (gate_of(task, self.now), *reserved)
            assert (task.gate == "!held") == (task.held_by is not None)
        assert (task.status in ENDED) == (task.finished_at is not None)
        assert task.status is not Status.BLOCKED or task.waiting_on > 0
        assert task.status not in (Status.QUEUED, Status.RUNNING) or task.waiting_on == 0
        assert task.status is not Status.FAILED or task.failure is not None


Life.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
TestLife = Life.TestCase


def task_in(status: Status, **fields: object) -> Task:
    task = submit(EnqueueRequest(type="work"), task_id="t", now=NOW).task
    running: dict[str, object] = {"node": "n", "lease_until": NOW + 9, "fence": 3, "attempts": 1}
    ended: dict[str, object] = {"finished_at": NOW}
    extra: dict[str, object] = {}
    if status in LEASED:
        extra = running
    elif status in ENDED:
        extra = ended
    return replace(task, status=status, **extra, **fields)


@pytest.mark.parametrize("status", Status)
@given(command=st.one_of(runner_commands, other_commands))
@settings(max_examples=60)
def test_no_command_breaks_the_table(status: Status, command: Command) -> None:
    task = task_in(status)
    ruling = decide(task, Instruction("t", command, fence=task.fence), NOW)
    if isinstance(ruling, Transition):
        after = ruling.after.status
        forced = isinstance(command, c.Force) and after is Status.COMPLETED
        unstuck = status is Status.STUCK and after in TRANSITIONS[Status.RUNNING]
        assert status is after or after in TRANSITIONS[status] or forced or unstuck


@pytest.mark.parametrize("status", Status)
@given(command=st.one_of(runner_commands, other_commands))
@settings(max_examples=60)
def test_the_events_of_a_change_say_its_status(status: Status, command: Command) -> None:
    """A reader of the feed knows where the task is without a look at its row."""
    task = task_in(status)
    ruling = decide(task, Instruction("t", command, fence=task.fence), NOW)
    if isinstance(ruling, Transition):
        for new in ruling.events:
            event = Event(Position("e", 1), new.kind, new.at, new.task_id, new.type, new.data)
            status = status_after(event) or status
        assert status is ruling.after.status


def test_every_command_has_its_rule() -> None:
    """Every command gets a ruling and raises nothing."""
    commands: dict[type, Command] = {
        c.Complete: c.Complete("1"),
        c.Fail: c.Fail(Failure(FailureKind.ERROR, "x")),
        c.Snooze: c.Snooze(1.0),
        c.Cancel: c.Cancel("x"),
        c.Release: c.Release("x"),
        c.Report: c.Report("1"),
        c.GetStuck: c.GetStuck(),
        c.Suspend: c.Suspend("node:n"),
        c.Expire: c.Expire(),
        c.Admit: c.Admit(),
        c.Settle: c.Settle("p", Status.COMPLETED, True),
        c.Revive: c.Revive("p", 1),
        c.ChangeCause: c.ChangeCause("p", "failed", "boom"),
        c.Abort: c.Abort("a"),
        c.Pause: c.Pause("a"),
        c.Resume: c.Resume("a"),
        c.Replay: c.Replay("a"),
        c.Edit: c.Edit("a", "1"),
        c.RetryTask: c.RetryTask("a"),
        c.Reassign: c.Reassign("a", "n"),
        c.Unlock: c.Unlock("a"),
        c.Force: c.Force("a", Status.QUEUED),
        c.Stall: c.Stall(),
        c.Unassign: c.Unassign(),
        c.Wake: c.Wake("d", "a", "decided"),
    }
    assert set(get_args(Command)) == set(commands)
    for command in commands.values():
        for status in Status:
            task = task_in(status)
            assert isinstance(
                decide(task, Instruction("t", command, fence=task.fence), NOW), Transition | Refusal
            )


def test_every_takeover_raises_the_fence() -> None:
    task = task_in(Status.RUNNING)
    taking = (c.Abort("a"), c.Pause("a"), c.Release("x"), c.Unlock("a"), c.Reassign("a", "m"))
    for command in taking:
        ruling = decide(task, Instruction("t", command, fence=task.fence), NOW)
        assert isinstance(ruling, Transition)
        assert ruling.after.fence == task.fence + 1
    expired = decide(task, Instruction("t", c.Expire(), fence=task.fence), NOW + 9)
    assert isinstance(expired, Transition)
    assert expired.after.fence == task.fence + 1


def test_a_renewed_lease_cannot_expire() -> None:
    task = task_in(Status.RUNNING)
    assert isinstance(decide(task, Instruction("t", c.Expire(), fence=3), NOW + 8.9), Refusal)
    assert isinstance(decide(task, Instruction("t", c.Expire(), fence=2), NOW + 99), Refusal)


def test_a_blocked_runner_is_not_reported_as_a_dead_one() -> None:
    task = task_in(Status.RUNNING)
    by = LoopBlock(20.0, "other", "mail")
    dead = decide(task, Instruction("t", c.Expire(), fence=3), NOW + 9)
    blocked = decide(task, Instruction("t", c.Expire({task.node or "": by}), fence=3), NOW + 9)
    assert isinstance(dead, Transition)
    assert isinstance(blocked, Transition)
    assert dead.events[0].data["runner"] == "silent"
    assert blocked.events[0].data["runner"] == "blocked"
    assert blocked.events[0].data["blocked_by"] == "other"
    assert dead.after == blocked.after

    last = task_in(Status.RUNNING, options_json='{"max_deaths":1}')
    command = c.Expire({last.node or "": by})
    ended = decide(last, Instruction("t", command, fence=3), NOW + 9)
    assert isinstance(ended, Transition)
    assert "is alive, but its event loop has been blocked for 20s by the handler of task other" in (
        ended.after.error or ""
    )
    assert ended.events[-1].data["runner"] == "blocked"


def test_too_many_deaths_make_a_dead_letter() -> None:
    task = task_in(Status.RUNNING, options_json='{"max_deaths":2}')
    once = decide(task, Instruction("t", c.Expire(), fence=3), NOW + 9)
    assert isinstance(once, Transition)
    assert (once.after.status, once.after.deaths, once.after.attempts) == (Status.QUEUED, 1, 0)
    again = claim(once.after, node="m", lease_seconds=9, now=NOW + 9).after
    twice = decide(again, Instruction("t", c.Expire(), fence=again.fence), NOW + 20)
    assert isinstance(twice, Transition)
    assert twice.after.status is Status.FAILED
    assert twice.after.failure is not None
    assert twice.after.failure.kind is FailureKind.LOST
    assert [event.kind for event in twice.events] == ["task.failed", "task.dead"]


def fallen() -> Task:
    blocked = task_in(Status.BLOCKED, waiting_on=1)
    settled = decide(blocked, Instruction("t", c.Settle("p", Status.FAILED, False, "boom")), NOW)
    assert isinstance(settled, Transition)
    return settled.after


def test_only_a_child_that_failed_with_a_parent_is_revived_or_gets_another_cause() -> None:
    dead = fallen()
    revived = decide(dead, Instruction("t", c.Revive("p", 1)), NOW)
    assert isinstance(revived, Transition)
    assert (revived.after.status, revived.after.waiting_on) == (Status.BLOCKED, 1)
    own = decide(
        task_in(Status.RUNNING),
        Instruction("t", c.Fail(Failure(FailureKind.ERROR, "x"), final=True), fence=3),
        NOW,
    )
    assert isinstance(own, Transition)
    for command in (c.Revive("p", 1), c.ChangeCause("q", "failed", "bang")):
        for task in (own.after, revived.after, task_in(Status.COMPLETED)):
            assert isinstance(decide(task, Instruction("t", command), NOW), Refusal)


def test_another_cause_leaves_a_child_a_dead_letter() -> None:
    dead = fallen()
    blamed = decide(dead, Instruction("t", c.ChangeCause("q", "failed", "bang")), NOW + 5)
    assert isinstance(blamed, Transition)
    after = blamed.after
    assert after.failure is not None
    assert (after.failure.kind, after.failure.cause) == (FailureKind.DEPENDENCY, "q")
    assert after.error == "dependency q failed: bang"
    assert (after.status, after.finished_at, after.fence) == (
        Status.FAILED,
        dead.finished_at,
        dead.fence,
    )
    assert after.fingerprint != dead.fingerprint
    assert [event.kind for event in blamed.events] == ["task.blamed"]


def test_the_table_has_every_status() -> None:
    assert set(TRANSITIONS) == set(Status)
    assert {Status.COMPLETED, Status.ABORTED} == TERMINAL
    assert all(Status.RUNNING not in TRANSITIONS[s] for s in (Status.BLOCKED, Status.FAILED))


@pytest.mark.parametrize("status", [Status.BLOCKED, Status.QUEUED, Status.PAUSED])
def test_the_hold_of_an_operator_takes_the_place_of_a_nodes_hold(status: Status) -> None:
    waits = {"waiting_on": 1} if status is Status.BLOCKED else {}
    task = task_in(status, held_by="node:n1: later", gate=HELD, **waits)
    ruling = decide(task, Instruction("t", c.Pause("user:ann", "not now")), NOW)
    assert isinstance(ruling, Transition)
    assert ruling.after.held_by == "user:ann: not now"
    assert [event.kind for event in ruling.events] == ["task.held"]
    for actor in ("node:n1", "node:n2", "user:ben"):
        again = decide(ruling.after, Instruction("t", c.Pause(actor)), NOW)
        assert isinstance(again, Refusal), "the hold stays that of the first operator"


@pytest.mark.parametrize(
    "metadata", ["{}", '{"four_eyes":false,"submitted_by":"user:ann"}', '{"four_eyes":true}']
)
def test_an_edit_keeps_who_submitted_a_task_with_four_eyes(metadata: str) -> None:
    stored = '{"four_eyes":true,"submitted_by":"user:ann"}'
    task = task_in(Status.QUEUED, metadata_json=stored)
    edit = c.Edit("user:ann", metadata_json=metadata)
    refused = decide(task, Instruction("t", edit), NOW)
    assert isinstance(refused, Refusal)
    more = c.Edit("user:ann", metadata_json='{"four_eyes":true,"submitted_by":"user:ann","x":1}')
    assert isinstance(decide(task, Instruction("t", more), NOW), Transition)


def test_a_report_that_merges_removes_a_field_by_an_empty_text() -> None:
    task = task_in(Status.RUNNING, progress_json='{"done":0.1,"note":"start","phase":"a"}')
    merging = c.Report('{"done":0.5,"note":""}', merge=True)
    moved = decide(task, Instruction("t", merging, fence=task.fence), NOW)
    assert isinstance(moved, Transition)
    assert moved.after.progress == {"done": 0.5, "phase": "a"}
    whole = decide(task, Instruction("t", c.Report('{"done":0.5}'), fence=task.fence), NOW)
    assert isinstance(whole, Transition)
    assert whole.after.progress == {"done": 0.5}
