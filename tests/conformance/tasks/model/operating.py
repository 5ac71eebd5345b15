"""Rules of operators: what they do to tasks and queues, what they look at, what is thrown away."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from holdfast.core import command as c
from holdfast.core.event import Position
from holdfast.core.task import Status
from holdfast.store.scripts import admin
from holdfast.store.scripts.feed import Skimmed
from tests.conformance.tasks.helpers import code, shown
from tests.conformance.tasks.model.machine import QUEUES, Hands

picks = st.integers(min_value=0, max_value=1_000)


class Operating(Hands):
    """Interventions, places, reads, pruning."""

    @rule(number=picks)
    def abort(self, number: int) -> None:
        if (task_id := self.pick(number)) is None:
            return
        was = self.model.status[task_id]
        ended = was in (Status.COMPLETED, Status.ABORTED)
        assert (code(self.ask(task_id, c.Abort("ann"))) == "moved") is not ended
        if not ended:
            self.model.end(task_id, Status.ABORTED)
            self.did("discard" if was is Status.FAILED else "abort")

    @precondition(lambda self: self.has(Status.FAILED))
    @rule(number=picks)
    def discard(self, number: int) -> None:
        if task_id := self.pick(number, Status.FAILED):
            assert code(self.ask(task_id, c.Abort("ann", "discarded"))) == "moved"
            self.model.end(task_id, Status.ABORTED)
            self.did("discard")

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=picks)
    def pause(self, number: int) -> None:
        if task_id := self.pick(number, Status.RUNNING):
            assert code(self.ask(task_id, c.Pause("ann", "why"))) == "moved"
            self.model.back(task_id, spent=False, status=Status.PAUSED)
            self.did("pause")

    @precondition(lambda self: self.has(Status.PAUSED))
    @rule(number=picks)
    def resume(self, number: int) -> None:
        if task_id := self.pick(number, Status.PAUSED):
            assert code(self.ask(task_id, c.Resume("ann"))) == "moved"
            self.model.status[task_id] = Status.QUEUED
            self.did("resume")

    @precondition(lambda self: self.has(Status.FAILED))
    @rule(number=picks)
    def replay(self, number: int) -> None:
        if task_id := self.pick(number, Status.FAILED):
            assert code(self.ask(task_id, c.Replay("ann"))) == "moved"
            self.model.replay(task_id)
            self.did("replay")

    @rule(number=picks)
    def edit(self, number: int) -> None:
        task_id = self.pick(number)
        if task_id and code(self.ask(task_id, c.Edit("ann", '"new"'))) == "moved":
            self.did("edit")

    @rule()
    def pause_queue(self) -> None:
        self.both(
            lambda store: store.run(
                lambda dialect, ids, now: admin.pause_queue(
                    dialect, ids, now, name="mail", actor="ann", reason=""
                )
            )
        )
        self.did("pause_queue")

    @rule()
    def resume_queue(self) -> None:
        self.both(
            lambda store: store.run(
                lambda dialect, ids, now: admin.resume_queue(
                    dialect, ids, now, name="mail", actor="ann"
                )
            )
        )
        self.did("resume_queue")

    @rule(number=picks)
    def look(self, number: int) -> None:
        """Whatever is asked, both stores answer alike."""
        self.both(lambda store: store.backlog.next_due(QUEUES))
        self.both(lambda store: store.backlog.first_due(QUEUES))
        if task_id := self.pick(number):
            for node in ("x", "node-a"):
                owned = [
                    sorted(tuple(row) for row in self.run(store.runs.owned(node)))
                    for store in self.stores
                ]
                assert owned[0] == owned[1]
            rows = [self.run(store.reads.get([task_id])) for store in self.stores]
            assert shown(rows[0][task_id]) == shown(rows[1][task_id])
            lives = [self.run(store.feed.history(task_id)) for store in self.stores]
            assert [e.kind for e in lives[0]] == [e.kind for e in lives[1]]
        heads = [self.run(store.feed.head()) for store in self.stores]
        assert heads[0].offset == heads[1].offset
        for store, head in zip(self.stores, heads, strict=True):
            skimmed = self.run(
                store.feed.skim(Position(head.epoch, 0), 10_000, ["task.", "queue."])
            )
            assert isinstance(skimmed, Skimmed)
            assert skimmed.position == skimmed.head == head
            assert bool(skimmed.prefixes) == (head.offset > 0)
            assert self.run(store.feed.oldest()) == Position(head.epoch, 0)
        self.did("look")

    @rule(dead=st.booleans())
    def prune(self, dead: bool) -> None:
        """Everything that ended, with or without the dead letters; also parents of dead letters."""
        self.tick()
        now = self.clock.now()
        gone = self.both(
            lambda store: store.prune(
                before=now, dead_before=now if dead else 0.0, feed_before=0.0, limit=100
            )
        )
        ended = {Status.COMPLETED, Status.ABORTED, *([Status.FAILED] if dead else [])}
        for task_id, status in list(self.model.status.items()):
            if status in ended and not self.model.is_read(task_id):
                self.model.forget(task_id)
                self.claims.pop(task_id, None)
        if gone:
            self.did("prune the dead" if dead else "prune")
