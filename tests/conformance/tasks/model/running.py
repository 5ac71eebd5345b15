"""Rules of runners: what they say about the tasks that they hold, and what is said without them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from holdfast.core import command as c
from holdfast.core.command import Command, Instruction
from holdfast.core.decide import Transition
from holdfast.core.task import RunId, Status, Task
from tests.conformance.tasks.helpers import code, failing
from tests.conformance.tasks.model.machine import Hands

picks = st.integers(min_value=0, max_value=1_000)
RUNS = precondition(lambda self: self.has(Status.RUNNING))


class Running(Hands):
    """Ends, reports, heartbeats, and leases that run out."""

    def pick_claim(self, number: int) -> Task:
        found = self.running()
        return found[number % len(found)]

    @RUNS
    @rule(number=picks, count=st.integers(1, 3))
    def complete(self, number: int, count: int) -> None:
        tasks = {t.id: t for t in (self.pick_claim(number + n) for n in range(count))}
        self.tick()
        ended = [
            (t, Instruction(t.id, c.Complete('{"ok":1}'), fence=t.fence)) for t in tasks.values()
        ]
        was_held = number % 4 == 0
        for ruling in self.both(lambda s: (s.finish_held if was_held else s.finish)(ended)):
            assert code(ruling) == "moved"
        for task_id in tasks:
            self.model.end(task_id, Status.COMPLETED)
        self.did("complete")
        self.commands[c.Complete] += 1

    def says(self, number: int, command: Command, rule: str) -> str:
        task = self.pick_claim(number)
        assert code(self.ask(task.id, command, task.fence)) == "moved"
        self.did(rule)
        return task.id

    @RUNS
    @rule(number=picks)
    def fail(self, number: int) -> None:
        self.model.fail(self.says(number, failing(), "fail"), final=False)

    @RUNS
    @rule(number=picks)
    def bury(self, number: int) -> None:
        self.model.fail(self.says(number, failing(final=True), "bury"), final=True)

    @RUNS
    @rule()
    def bury_all(self) -> None:
        """All that runs and has no limit, in one transaction: parents of one child too."""
        tasks = [task for task in self.running() if not task.limits]
        self.order(*(Instruction(t.id, failing(final=True), fence=t.fence) for t in tasks))
        for task in tasks:
            self.model.fail(task.id, final=True)
            self.did("bury_all")

    @RUNS
    @rule(number=picks)
    def snooze(self, number: int) -> None:
        self.model.back(self.says(number, c.Snooze(3.0, "later"), "snooze"), spent=False)

    @RUNS
    @rule(number=picks)
    def release(self, number: int) -> None:
        """As a process that stops does."""
        self.model.back(self.says(number, c.Release("stop"), "release"), spent=False)

    @RUNS
    @rule(number=picks)
    def cancel(self, number: int) -> None:
        self.model.end(self.says(number, c.Cancel("unwanted"), "cancel"), Status.ABORTED)

    @RUNS
    @rule(number=picks)
    def report(self, number: int) -> None:
        self.reports += 1
        report = c.Report(progress_json=str(self.reports), checkpoint_json=f"[{self.reports}]")
        self.says(number, report, "report")

    @precondition(lambda self: self.old_claims)
    @rule(number=picks)
    def stale(self, number: int) -> None:
        """A runner that has lost its task changes nothing."""
        old = self.old_claims[number % len(self.old_claims)]
        for command in (c.Complete("1"), failing(), c.Snooze(1.0), c.Report(progress_json="1")):
            ruling = self.ask(old.id, command, old.fence)
            assert code(ruling) in ("lease-lost", "already-applied", "not-found")
        self.did("stale")

    # -- leases --------------------------------------------------------------------------------------

    def leases(self) -> list[RunId]:
        return [task.run for task in self.claims.values()]

    def lost(self) -> set[RunId]:
        return {
            task.run
            for i, task in self.claims.items()
            if self.model.status[i] is not Status.RUNNING
        }

    @RUNS
    @rule(node=st.sampled_from(["x", "y", "node-a"]))
    def beat(self, node: str) -> None:
        self.tick()
        kept = [self.run(store.heartbeat(node, "{}", self.leases(), 9.0)) for store in self.stores]
        assert kept[0].lost == kept[1].lost == self.lost()
        mine = sorted((t.id, t.fence) for t in self.running() if t.node == node)
        for each in kept:
            assert sorted((row[0], row[1]) for row in each.owned) == mine
        self.did("heartbeat")

    @RUNS
    @rule()
    def expire(self) -> None:
        """Tasks under limits one at a time, so that no two of them come back at the same moment."""
        self.tick(9.0)
        for task in self.running():
            if task.limits and code(self.ask(task.id, c.Expire(), task.fence)) == "moved":
                self.model.die(task.id)
        for store in self.stores:
            found = self.run(store.sweep()).expired
            lost = {d.after.id for d in found if isinstance(d, Transition)}
            assert len(lost) == len(found)
            if store is self.sqlite:
                for task_id in sorted(lost):
                    self.model.die(task_id)
                    self.did("expire")
                    self.commands[c.Expire] += 1
        self.settle()

    @rule()
    def link(self) -> None:
        """Every insert has linked what it brought in."""
        assert self.both(lambda store: store.links.unlinked()) == []
        assert self.both(lambda store: store.links.link()) == (0, True)
        self.did("link")

    @rule(seconds=st.sampled_from([0.5, 3.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.tick(seconds)
        self.did("wait")

    @rule()
    def open_gates(self) -> None:
        self.tick(5.0)
        opened, _ = self.both(lambda store: store.backlog.open_gates())
        if opened:
            self.did("open_gates")
