"""Rules of interventions: holds, reservations, stuck runs, decisions, takeovers and forced statuses."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from holdfast.core import command as c
from holdfast.core.task import Status
from tests.conformance.tasks.helpers import claim_request, code
from tests.conformance.tasks.model.enqueueing import Enqueueing
from tests.conformance.tasks.model.machine import QUEUES
from tests.conformance.tasks.model.running import RUNS, Running

picks = st.integers(min_value=0, max_value=1_000)
QUEUED = precondition(lambda self: self.has(Status.QUEUED))
STALL_SECONDS = 2.0


class Intervening(Enqueueing, Running):
    """What takes a task out of line and puts it back."""

    @QUEUED
    @rule(number=picks)
    def hold(self, number: int) -> None:
        """A held task is not claimed, whatever its limits."""
        if task_id := self.pick(number, Status.QUEUED):
            assert code(self.ask(task_id, c.Pause("ann", "wait"))) == "moved"
            assert code(self.ask(task_id, c.Pause("ann", "wait"))) == "already-applied"
            assert code(self.ask(task_id, c.Resume("ann"))) == "moved"
            self.did("hold")

    @QUEUED
    @rule(number=picks)
    def reserve(self, number: int) -> None:
        if task_id := self.pick(number, Status.QUEUED):
            assert code(self.ask(task_id, c.Reassign("ann", "z", 1.0))) == "moved"
            assert code(self.ask(task_id, c.Unassign())) == "conflict"
            self.tick(1.0)
            assert code(self.ask(task_id, c.Unassign())) == "moved"
            self.did("reserve")

    @QUEUED
    @rule(number=picks)
    def claim_reserved(self, number: int) -> None:
        """Only the node that it is reserved for gets it."""
        task_id = self.pick(number, Status.QUEUED)
        if task_id is None or task_id in self.limited:
            return
        assert code(self.ask(task_id, c.Reassign("ann", "node-a"))) == "moved"
        self.ask(task_id, c.RetryTask("ann"))
        claim = claim_request(100, queues=QUEUES)
        claimed = self.both(lambda store: store.by_id.claim_assigned(claim))
        self.took(claimed.tasks, "claim_reserved")
        if task_id not in {task.id for task in claimed.tasks}:  # Its queue is paused.
            assert code(self.ask(task_id, c.Force("ann", Status.QUEUED))) == "already-applied"
            assert code(self.ask(task_id, c.Reassign("ann", "z", 0.001))) == "moved"
            self.tick(1.0)
            assert code(self.ask(task_id, c.Unassign())) == "moved"

    @RUNS
    @rule(number=picks)
    def get_stuck(self, number: int) -> None:
        """A stuck runner keeps its claim, and progress frees it."""
        task = self.pick_claim(number)
        assert code(self.ask(task.id, c.GetStuck("slow"), task.fence)) == "moved"
        self.reports += 1
        report = c.Report(progress_json=str(self.reports))
        assert code(self.ask(task.id, report, task.fence)) == "moved"
        self.did("get_stuck")

    @rule()
    def stall(self) -> None:
        """A run without progress is stuck from its deadline on; an operator resumes it."""
        self.tick()
        submission = self.asked(progress_timeout_seconds=STALL_SECONDS, queue="stalls")
        self.add(submission)
        task_id = submission.task.id
        claim = claim_request(1, queues=("stalls",))
        self.took(self.both(lambda store: store.claim(claim)).tasks, "claim")
        assert code(self.ask(task_id, c.Stall())) == "conflict"
        self.tick(STALL_SECONDS)
        assert code(self.ask(task_id, c.Stall())) == "moved"
        assert code(self.ask(task_id, c.Resume("ann"))) == "moved"
        self.model.back(task_id, spent=False)
        assert code(self.ask(task_id, c.Abort("ann"))) == "moved"
        self.model.end(task_id, Status.ABORTED)
        self.did("stall")

    @rule()
    def admit(self) -> None:
        """A task that waits for its job is queued when the job lets it start."""
        self.tick()
        submission = self.asked(queue="jobs")
        submission = replace(submission, task=replace(submission.task, status=Status.BLOCKED))
        self.add(submission)
        task_id = submission.task.id
        assert code(self.ask(task_id, c.Admit())) == "moved"
        assert code(self.ask(task_id, c.Admit())) == "conflict"
        assert code(self.ask(task_id, c.Abort("ann"))) == "moved"
        self.model.end(task_id, Status.ABORTED)
        self.did("admit")

    @RUNS
    @rule(number=picks)
    def suspend(self, number: int) -> None:
        """A task that waits for a decision goes on when it is made."""
        self.reports += 1
        name = f"d{self.reports}"
        task_id = self.says(number, c.Suspend("node:x", "", name), "suspend")
        assert code(self.ask(task_id, c.Resume("ann"))) == "decision-needed"
        assert code(self.ask(task_id, c.Wake("other", "ann", "decided"))) == "already-applied"
        assert code(self.ask(task_id, c.Wake(name, "ann", "decided"))) == "moved"
        self.model.back(task_id, spent=False)

    @RUNS
    @rule(number=picks)
    def unlock(self, number: int) -> None:
        task = self.pick_claim(number)
        assert code(self.ask(task.id, c.Unlock("ann", "stuck"))) == "moved"
        self.model.back(task.id, spent=False)
        self.did("unlock")

    @rule(number=picks)
    def retry(self, number: int) -> None:
        task_id = self.pick(number, Status.FAILED, Status.QUEUED)
        if task_id is None:
            return
        was = self.model.status[task_id]
        answer = code(self.ask(task_id, c.RetryTask("ann")))
        if was is Status.FAILED:
            assert answer == "moved"
            self.model.replay(task_id)
        else:
            assert answer in ("moved", "already-applied")
        self.did("retry")

    @RUNS
    @rule(
        number=picks,
        status=st.sampled_from([Status.QUEUED, Status.PAUSED, Status.FAILED, Status.COMPLETED]),
    )
    def force(self, number: int, status: Status) -> None:
        task = self.pick_claim(number)
        command = c.Force("ann", status, "by hand", '"forced"')
        assert code(self.ask(task.id, command)) == "moved"
        if status in (Status.FAILED, Status.COMPLETED):
            self.model.end(task.id, status)
        else:
            self.model.back(task.id, spent=False, status=status)
        self.did("force")
