"""Rules that bring tasks in."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.limit import LimitRule
from holdfast.core.schedule import Schedule
from holdfast.core.submit import Submission
from holdfast.core.task import Priority, Status, Task
from holdfast.store.scripts import schedules as scripts
from tests.conformance.tasks.helpers import claim_request
from tests.conformance.tasks.model.machine import PROJECTS, QUEUES, Hands
from tests.statements import query

picks = st.integers(min_value=0, max_value=1_000)
EVERY = "@every 5"


class Enqueueing(Hands):
    """Plain, in groups, with parents, limits, keys, and by the clock."""

    @rule(
        priority=st.sampled_from(Priority),
        queue=st.sampled_from(QUEUES),
        delay=st.sampled_from([0.0, 0.0, 5.0]),
    )
    def insert(self, priority: Priority, queue: str, delay: float) -> None:
        self.tick()
        self.add(self.asked(priority=priority, queue=queue, delay_seconds=delay))
        self.did("insert")

    @rule(queue=st.sampled_from(QUEUES), delay=st.sampled_from([0.0, 0.0, 5.0]))
    def insert_alone(self, queue: str, delay: float) -> None:
        self.tick()
        self.add(self.asked(id_given=False, queue=queue, delay_seconds=delay))
        self.did("insert_alone")

    @rule(count=st.integers(1, 3), queue=st.sampled_from(QUEUES))
    def insert_plain(self, count: int, queue: str) -> None:
        self.tick()
        group = [self.asked(id_given=False, queue=queue) for _ in range(count)]
        self.both(lambda store: store.insert(group))
        for submission in group:
            self.model.add(submission.task.id, {})
        self.did("insert_plain")

    def is_free_of_limits(self) -> bool:
        """Whether nothing that waits has to pass a limit, which takes a transaction more."""
        return not any(self.model.status.get(i) is Status.QUEUED for i in self.limited)

    @precondition(is_free_of_limits)
    @rule()
    def insert_and_claim(self) -> None:
        self.tick()
        submission = self.asked(id_given=False)
        claim = claim_request(100, queues=QUEUES)
        _, claimed = self.both(lambda store: store.insert_and_claim([submission], claim))
        self.model.add(submission.task.id, {})
        self.took(claimed.tasks, "insert_and_claim")

    @rule(first=picks, second=picks, policy=st.sampled_from(DependencyPolicy), dead=st.booleans())
    def insert_child(self, first: int, second: int, policy: DependencyPolicy, dead: bool) -> None:
        """Also of the dead: the child fails with them, unless it ignores that they failed."""
        gone = (Status.FAILED, Status.ABORTED)
        found = (self.pick(first, *(gone if dead else ())), self.pick(second))
        parents = sorted({task_id for task_id in found if task_id is not None})
        if not parents:
            return
        # A parent of another project would be unknown.
        project = self.projects.get(parents[0], PROJECTS[0])
        parents = [i for i in parents if self.projects.get(i, PROJECTS[0]) == project]
        self.tick()
        edges = tuple(Edge(parent, policy) for parent in parents)
        submission = self.asked(depends_on=edges, project=project)
        self.both(lambda store: store.insert([submission]))
        self.model.add(submission.task.id, dict.fromkeys(parents, policy))
        is_dead = self.model.status[submission.task.id] is Status.FAILED
        self.did("insert_child of the dead" if is_dead else "insert_child")

    @rule(children=st.integers(1, 4))
    def insert_family(self, children: int) -> None:
        """Two parents, their children and a child of the first one, in one go."""
        self.tick()
        group = [self.asked(), self.asked()]
        above = [submission.task.id for submission in group]
        group += [self.asked(depends_on=tuple(Edge(i) for i in above)) for _ in range(children)]
        group.append(self.asked(depends_on=(Edge(group[2].task.id),)))
        self.both(lambda store: store.insert(group))
        for submission in group:
            parents = {edge.parent_id: edge.policy for edge in submission.edges}
            self.model.add(submission.task.id, parents)
        self.did("insert_family")

    @rule(key=st.sampled_from("ab"), rate=st.booleans(), count=st.integers(1, 3))
    def insert_limited(self, key: str, rate: bool, count: int) -> None:
        limit = LimitRule(rate_count=1, rate_seconds=5.0) if rate else LimitRule(max_running=1)
        for _ in range(count):
            self.tick()
            submission = self.asked(type="limited", rules=((f"limited/{key}{rate}", limit),))
            self.add(submission)
            self.limited.add(submission.task.id)
        self.did("insert_limited")

    def add(self, submission: Submission) -> None:
        self.both(lambda store: store.insert([submission]))
        self.model.add(submission.task.id, {})

    @rule(payload=st.integers(0, 1))
    def repeat(self, payload: int) -> None:
        self.tick()
        submission = self.asked(payload=payload, idempotency_key="key", project="default")
        answer = self.both(lambda store: store.insert([submission]))
        if isinstance(answer, list) and answer[0].created:
            self.model.add(submission.task.id, {})
        else:
            self.did("repeat" if isinstance(answer, list) else "repeat refused")

    # -- by the clock --------------------------------------------------------------------------------

    @rule()
    def schedule(self) -> None:
        self.tick()
        schedule = Schedule("s", "work", "default", EVERY, "UTC", "null", 2, 0.0)
        self.both(
            lambda store: store.run(
                lambda dialect, ids, now: scripts.put(
                    dialect, ids, now, schedule=schedule, actor="model"
                )
            )
        )
        self.did("schedule")

    @rule(times=st.integers(1, 2))
    def fire(self, times: int) -> None:
        """One task for a moment, however many instances see that it is due."""
        self.tick(5.0)
        found = [self.run(query(store, "schedules")) for store in self.stores]
        assert [tuple(row) for row in found[0]] == [tuple(row) for row in found[1]]
        schedules = [Schedule(*row) for row in found[0]]
        for schedule in schedules:
            fired = [self.fire_once(schedule) for _ in range(times)]
            assert fired == [schedule.next_at <= self.clock.now(), *[False] * (times - 1)]

    def fire_once(self, schedule: Schedule) -> bool:
        if schedule.next_at > self.clock.now():
            return False
        submission = self.asked()
        answer = self.both(
            lambda store: store.run(
                lambda dialect, ids, now: scripts.fire(
                    dialect, ids, now, schedule=schedule, submission=submission
                )
            )
        )
        if answer is None:
            return False
        self.model.add(submission.task.id, {})
        self.did("fire")
        return True

    @rule()
    def unschedule(self) -> None:
        if self.run(query(self.sqlite, "schedules")):
            self.both(
                lambda store: store.run(
                    lambda dialect, ids, now: scripts.remove(
                        dialect, ids, now, name="s", actor="model", reason=""
                    )
                )
            )
            self.did("unschedule")

    @rule()
    def hold_schedule(self) -> None:
        """Paused and resumed: its next time is one that lies ahead."""
        if not self.run(query(self.sqlite, "schedules")):
            return
        self.tick()
        self.both(
            lambda store: store.run(
                lambda dialect, ids, now: scripts.pause(
                    dialect, ids, now, name="s", actor="model", reason=""
                )
            )
        )
        self.both(
            lambda store: store.run(
                lambda dialect, ids, now: scripts.resume(dialect, ids, now, name="s", actor="model")
            )
        )
        self.did("hold_schedule")

    # -- claims --------------------------------------------------------------------------------------

    def took(self, tasks: list[Task], verb: str) -> None:
        for task in tasks:
            assert task.due_at <= self.clock.now()
            if task.id in self.claims:
                self.old_claims.append(self.claims[task.id])
            self.model.start(task.id)
            self.claims[task.id] = task
            self.did(verb)

    @precondition(lambda self: self.has(Status.QUEUED))
    @rule(queues=st.sampled_from([QUEUES, ("default",)]), node=st.sampled_from("xy"))
    def claim(self, queues: tuple[str, ...], node: str) -> None:
        self.tick()
        claimed = self.both(lambda store: store.claim(claim_request(100, queues=queues, node=node)))
        self.took(claimed.tasks, "claim")

    @precondition(lambda self: self.has(Status.QUEUED))
    @rule(queues=st.sampled_from([QUEUES, ("default",)]), node=st.sampled_from("xy"))
    def claim_next(self, queues: tuple[str, ...], node: str) -> None:
        self.tick()
        if self.is_first_certain(queues):
            first = claim_request(1, queues=queues, node=node, expected=1)
            self.took(self.both(lambda store: store.claim(first)).tasks, "claim_next")

    def is_first_certain(self, queues: tuple[str, ...]) -> bool:
        """Of tasks that one transaction let in at the same moment, each database has its own first."""
        found = self.run(self.sqlite.reads.find(status=Status.QUEUED, limit=1_000))
        places = sorted(
            (task.priority, queues.index(task.queue), task.due_at)
            for task in found
            if task.queue in queues
        )
        return len(places) == len(set(places))

    @precondition(lambda self: self.has(Status.QUEUED))
    @rule()
    def claim_aged(self) -> None:
        """After a while without a claim."""
        self.tick(3.0)
        claimed = self.both(
            lambda store: store.claim_aged(claim_request(100, queues=QUEUES), ageing_seconds=2.0)
        )
        self.took(claimed.tasks, "claim_aged")
