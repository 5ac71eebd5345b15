"""Random verbs against both stores and a simple model at once: three that must always agree.

The model knows nothing of SQL, locks or fast paths: only what a task's status and attempts must be.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

import asyncpg
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.clock import VirtualClock
from holdfast.core import command as c
from holdfast.core.command import Command, Order
from holdfast.core.decide import Decision, Transition
from holdfast.core.dependency import Edge, Policy
from holdfast.core.ids import Ids
from holdfast.core.limit import Rule
from holdfast.core.submit import Request, submit
from holdfast.core.task import ENDED, Options, Priority, Status, Task
from holdfast.errors import HoldfastError
from holdfast.store.postgres.dialect import PostgresDialect
from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.scripts import admin
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.sqlite.driver import SqliteDriver
from holdfast.store.store import Lease, Store
from tests.conformance.helpers import all_tasks, code, failing, read_all, shown, wanted

T = TypeVar("T")
QUEUES = ("default", "mail")
MAX_ATTEMPTS = 2
MAX_DEATHS = 2
VERBS = {
    *("insert", "insert_plain", "insert_child", "insert_limited", "repeat", "claim", "claim_aged"),
    *("complete", "fail", "bury", "snooze", "cancel", "release", "report", "stale", "extend"),
    *("expire", "abort", "pause", "resume", "replay", "edit", "open_gates", "prune"),
    *("pause_queue", "resume_queue"),
}
EMPTY = """TRUNCATE holdfast_task, holdfast_edge, holdfast_feed, holdfast_counter, holdfast_limit,
    holdfast_queue CASCADE;
UPDATE holdfast_feed_head SET head = 0, oldest = 1, counted_through = 0"""
picks = st.integers(min_value=0, max_value=1_000)


class Model:
    """What the status and the attempts of every task must be."""

    def __init__(self) -> None:
        self.status: dict[str, Status] = {}
        self.attempts: dict[str, int] = {}
        self.deaths: dict[str, int] = {}
        self.waits: dict[str, dict[str, Policy]] = {}
        """By child: the parents that have not ended as it needs them."""
        self.fell: set[str] = set()
        """Who failed with a parent."""

    def add(self, task_id: str, parents: dict[str, Policy]) -> None:
        self.waits[task_id] = {p: x for p, x in parents.items() if self.status[p] not in ENDED}
        self.status[task_id] = Status.BLOCKED if self.waits[task_id] else Status.QUEUED
        self.attempts[task_id] = self.deaths[task_id] = 0

    def start(self, task_id: str) -> None:
        assert self.status[task_id] is Status.QUEUED, "only a queued task may start"
        self.status[task_id] = Status.RUNNING
        self.attempts[task_id] += 1

    def back(self, task_id: str, *, spent: bool, status: Status = Status.QUEUED) -> None:
        self.status[task_id] = status
        if not spent:
            self.attempts[task_id] -= 1

    def end(self, task_id: str, status: Status) -> None:
        was = self.status[task_id]
        self.status[task_id] = status
        if was is status:
            return
        for child, waits in self.waits.items():
            if task_id not in waits:
                continue
            if status is Status.COMPLETED or waits[task_id] is Policy.IGNORE:
                del waits[task_id]
                if self.status[child] is Status.BLOCKED and not waits:
                    self.status[child] = Status.QUEUED
            elif self.status[child] is Status.BLOCKED:
                self.fell.add(child)
                self.end(child, Status.FAILED)

    def fail(self, task_id: str, *, final: bool) -> None:
        if final or self.attempts[task_id] >= MAX_ATTEMPTS:
            self.end(task_id, Status.FAILED)
        else:
            self.back(task_id, spent=True)

    def die(self, task_id: str) -> None:
        self.deaths[task_id] += 1
        self.attempts[task_id] -= 1
        if self.deaths[task_id] >= MAX_DEATHS:
            self.end(task_id, Status.FAILED)
        else:
            self.status[task_id] = Status.QUEUED

    def replay(self, task_id: str) -> None:
        self.status[task_id] = Status.QUEUED
        self.attempts[task_id] = self.deaths[task_id] = 0
        self.fell.discard(task_id)
        self.revive(task_id)

    def revive(self, parent: str) -> None:
        """Whoever failed with a parent, and has no dead parent any more, waits again."""
        for child in [i for i, waits in self.waits.items() if parent in waits]:
            if self.status[child] is Status.FAILED and child in self.fell and not self.dead(child):
                self.status[child] = Status.BLOCKED
                self.attempts[child] = self.deaths[child] = 0
                self.revive(child)

    def dead(self, child: str) -> list[str]:
        """The parents that keep it from coming back; one that is not known any more was pruned."""
        gone = (None, Status.FAILED, Status.ABORTED)
        waits = self.waits[child].items()
        return [p for p, x in waits if x is Policy.FAIL and self.status.get(p) in gone]


class Machine(RuleBasedStateMachine):
    """Every rule does the same to both stores and to the model."""

    dsn: ClassVar[str]
    loop: ClassVar[asyncio.AbstractEventLoop]
    postgres: ClassVar[Store]
    clock: ClassVar[VirtualClock] = VirtualClock()
    seen: ClassVar[Counter[str]] = Counter()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    @initialize()
    def begin(self) -> None:
        self.sqlite = Store(
            SqliteDriver("", self.clock, inline=True), SqliteDialect(), Ids(random.Random(1))
        )
        self.run(self.sqlite.open())
        self.run(empty(self.dsn))
        self.stores = (self.sqlite, self.postgres)
        self.model = Model()
        self.claims: dict[str, Task] = {}
        self.old_claims: list[Task] = []
        self.number = 0

    def teardown(self) -> None:
        if not hasattr(self, "stores"):
            return
        feeds = [self.run(read_all(store)) for store in self.stores]
        lives = []
        for feed in feeds:
            life: dict[str, list[Any]] = {}
            for event in feed:
                life.setdefault(event.task_id, []).append((event.kind, event.at, event.data))
            lives.append(life)
        assert lives[0] == lives[1]
        self.run(self.sqlite.close())

    # -- helpers -----------------------------------------------------------------------------------

    def tick(self, seconds: float = 0.001) -> None:
        self.clock.set(self.clock.now() + seconds)

    def both(self, call: Any) -> Any:
        """The same call to both stores; their answers must be alike."""
        answers = []
        for store in self.stores:
            try:
                answers.append(self.run(call(store)))
            except HoldfastError as error:
                answers.append(error.code)
        assert digest(answers[0]) == digest(answers[1])
        return answers[0]

    def order(self, task_id: str, command: Command, fence: int | None = None) -> Decision:
        self.tick()
        answer: list[Decision] = self.both(
            lambda store: store.apply([Order(task_id, command, fence=fence)])
        )
        return answer[0]

    def did(self, verb: str) -> None:
        assert verb in VERBS
        self.seen[verb] += 1

    def pick(self, number: int, *statuses: Status) -> str | None:
        found = sorted(i for i, s in self.model.status.items() if not statuses or s in statuses)
        return found[number % len(found)] if found else None

    def pick_claim(self, number: int) -> Task | None:
        found = sorted(i for i in self.claims if self.model.status[i] is Status.RUNNING)
        return self.claims[found[number % len(found)]] if found else None

    def has(self, status: Status) -> bool:
        return status in self.model.status.values()

    def new_id(self) -> str:
        self.number += 1
        return f"t{self.number:04}"

    def request(self, **fields: Any) -> Request:
        defaults: dict[str, Any] = {
            "type": "work",
            "max_attempts": MAX_ATTEMPTS,
            "options": Options(max_deaths=MAX_DEATHS),
        }
        return Request(**(defaults | fields))

    # -- enqueue -----------------------------------------------------------------------------------

    @rule(
        priority=st.sampled_from(Priority),
        queue=st.sampled_from(QUEUES),
        delay=st.sampled_from([0.0, 0.0, 5.0]),
    )
    def insert(self, priority: Priority, queue: str, delay: float) -> None:
        self.tick()
        request = self.request(priority=priority, queue=queue, delay_seconds=delay)
        submission = submit(request, task_id=self.new_id(), now=self.clock.now())
        self.both(lambda store: store.insert([submission]))
        self.model.add(submission.task.id, {})
        self.did("insert")

    @rule(count=st.integers(1, 3), queue=st.sampled_from(QUEUES))
    def insert_plain(self, count: int, queue: str) -> None:
        self.tick()
        request = self.request(queue=queue)
        group = [submit(request, task_id=self.new_id(), now=self.clock.now()) for _ in range(count)]
        self.both(lambda store: store.insert_plain(group))
        for submission in group:
            self.model.add(submission.task.id, {})
        self.did("insert_plain")

    @rule(first=picks, second=picks, policy=st.sampled_from(Policy))
    def insert_child(self, first: int, second: int, policy: Policy) -> None:
        parents = {self.pick(n) for n in (first, second)} - {None}
        if not parents:
            return
        self.tick()
        edges = tuple(Edge(parent, policy) for parent in sorted(p for p in parents if p))
        request = self.request(depends_on=edges)
        submission = submit(request, task_id=self.new_id(), now=self.clock.now())
        answer = self.both(lambda store: store.insert([submission]))
        if isinstance(answer, list):
            self.model.add(submission.task.id, {edge.parent_id: policy for edge in edges})
            self.did("insert_child")
        else:
            assert answer == "dependency-failed"
            assert any(
                self.model.status[e.parent_id] in (Status.FAILED, Status.ABORTED) for e in edges
            )

    @rule(key=st.sampled_from("ab"), rate=st.booleans())
    def insert_limited(self, key: str, rate: bool) -> None:
        self.tick()
        limit = Rule(rate_count=1, rate_seconds=5.0) if rate else Rule(max_running=1)
        rules = ((f"limited/{key}{rate}", limit),)
        request = self.request(type="limited", rules=rules)
        submission = submit(request, task_id=self.new_id(), now=self.clock.now())
        self.both(lambda store: store.insert([submission]))
        self.model.add(submission.task.id, {})
        self.did("insert_limited")

    @rule(payload=st.integers(0, 1))
    def repeat(self, payload: int) -> None:
        self.tick()
        request = self.request(payload=payload, idempotency_key="key")
        submission = submit(request, task_id=self.new_id(), now=self.clock.now())
        answer = self.both(lambda store: store.insert([submission]))
        if isinstance(answer, list) and answer[0].created:
            self.model.add(submission.task.id, {})
        else:
            self.did("repeat")

    # -- run ---------------------------------------------------------------------------------------

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
        claimed = self.both(lambda store: store.claim(wanted(100, queues=queues, node=node)))
        self.took(claimed.tasks, "claim")

    @precondition(lambda self: self.has(Status.QUEUED))
    @rule()
    def claim_aged(self) -> None:
        """After a while without a claim."""
        self.tick(3.0)
        claimed = self.both(
            lambda store: store.claim_aged(wanted(100, queues=QUEUES), ageing_seconds=2.0)
        )
        self.took(claimed.tasks, "claim_aged")

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=picks, count=st.integers(1, 3))
    def complete(self, number: int, count: int) -> None:
        tasks = {t.id: t for n in range(count) if (t := self.pick_claim(number + n))}
        if not tasks:
            return
        self.tick()
        ended = [(t, Order(t.id, c.Complete('{"ok":1}'), fence=t.fence)) for t in tasks.values()]
        for decision in self.both(lambda store: store.finish(ended)):
            assert code(decision) == "moved"
        for task_id in tasks:
            self.model.end(task_id, Status.COMPLETED)
        self.did("complete")

    def runner(self, number: int, command: Command, verb: str) -> str | None:
        task = self.pick_claim(number)
        if task is None:
            return None
        assert code(self.order(task.id, command, task.fence)) == "moved"
        self.did(verb)
        return task.id

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=picks)
    def fail(self, number: int) -> None:
        if task_id := self.runner(number, failing(), "fail"):
            self.model.fail(task_id, final=False)

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=picks)
    def bury(self, number: int) -> None:
        if task_id := self.runner(number, failing(final=True), "bury"):
            self.model.fail(task_id, final=True)

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=picks)
    def snooze(self, number: int) -> None:
        if task_id := self.runner(number, c.Snooze(3.0, "later"), "snooze"):
            self.model.back(task_id, spent=False)

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=picks)
    def release(self, number: int) -> None:
        if task_id := self.runner(number, c.Release("stop"), "release"):
            self.model.back(task_id, spent=False)

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=picks)
    def cancel(self, number: int) -> None:
        if task_id := self.runner(number, c.Cancel("unwanted"), "cancel"):
            self.model.end(task_id, Status.ABORTED)

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=picks)
    def report(self, number: int) -> None:
        self.runner(number, c.Report(progress_json="0.5", checkpoint_json="[1]"), "report")

    @precondition(lambda self: self.old_claims)
    @rule(number=picks)
    def stale(self, number: int) -> None:
        old = self.old_claims[number % len(self.old_claims)]
        for command in (c.Complete("1"), failing(), c.Snooze(1.0), c.Report(progress_json="1")):
            decision = self.order(old.id, command, old.fence)
            assert code(decision) in ("lease-lost", "already-applied", "not-found")
        self.did("stale")

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule()
    def extend(self) -> None:
        self.tick()
        leases = [Lease(task.id, task.fence) for task in self.claims.values()]
        lost = self.both(lambda store: store.extend(leases, 9.0))
        assert lost == {i for i in self.claims if self.model.status[i] is not Status.RUNNING}
        self.did("extend")

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule()
    def expire(self) -> None:
        """Tasks under limits one at a time, so that no two of them come back at the same moment."""
        self.tick(9.0)
        running = [t for i, t in self.claims.items() if self.model.status[i] is Status.RUNNING]
        for task in sorted(running, key=lambda t: t.id):
            if task.limits and code(self.order(task.id, c.Expire(), task.fence)) == "moved":
                self.model.die(task.id)
        for store in self.stores:
            found = self.run(store.expire())
            lost = {d.after.id for d in found if isinstance(d, Transition)}
            assert len(lost) == len(found)
            if store is self.sqlite:
                for task_id in sorted(lost):
                    self.model.die(task_id)
                    self.did("expire")

    @rule(seconds=st.sampled_from([0.5, 3.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.tick(seconds)

    @rule()
    def open_gates(self) -> None:
        self.tick(5.0)
        opened, _ = self.both(lambda store: store.open_gates())
        if opened:
            self.did("open_gates")

    # -- intervene ---------------------------------------------------------------------------------

    @rule(number=picks)
    def abort(self, number: int) -> None:
        if (task_id := self.pick(number)) is None:
            return
        ended = self.model.status[task_id] in (Status.COMPLETED, Status.ABORTED)
        assert (code(self.order(task_id, c.Abort("ann"))) == "moved") is not ended
        if not ended:
            self.model.end(task_id, Status.ABORTED)
            self.did("abort")

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=picks)
    def pause(self, number: int) -> None:
        if task_id := self.pick(number, Status.RUNNING):
            assert code(self.order(task_id, c.Pause("ann", "why"))) == "moved"
            self.model.back(task_id, spent=False, status=Status.PAUSED)
            self.did("pause")

    @precondition(lambda self: self.has(Status.PAUSED))
    @rule(number=picks)
    def resume(self, number: int) -> None:
        if task_id := self.pick(number, Status.PAUSED):
            assert code(self.order(task_id, c.Resume("ann"))) == "moved"
            self.model.status[task_id] = Status.QUEUED
            self.did("resume")

    @precondition(lambda self: self.has(Status.FAILED))
    @rule(number=picks)
    def replay(self, number: int) -> None:
        if task_id := self.pick(number, Status.FAILED):
            assert code(self.order(task_id, c.Replay("ann"))) == "moved"
            self.model.replay(task_id)
            self.did("replay")

    @rule(number=picks)
    def edit(self, number: int) -> None:
        task_id = self.pick(number)
        if task_id and code(self.order(task_id, c.Edit("ann", '"new"'))) == "moved":
            self.did("edit")

    @rule()
    def prune(self) -> None:
        """Everything that ended, dead letters apart; also parents of dead letters."""
        self.tick()
        now = self.clock.now()
        gone = self.both(
            lambda store: store.prune(before=now, dead_before=0.0, feed_before=0.0, limit=100)
        )
        if gone:
            self.did("prune")
        for task_id, status in list(self.model.status.items()):
            if status in (Status.COMPLETED, Status.ABORTED):
                self.forget(task_id)

    def forget(self, task_id: str) -> None:
        for part in (self.model.status, self.model.attempts, self.model.deaths, self.model.waits):
            part.pop(task_id)
        self.claims.pop(task_id, None)

    @rule(name=st.just("mail"))
    def pause_queue(self, name: str) -> None:
        self.both(
            lambda store: store.run(
                lambda dialect, ids, now: admin.pause_queue(
                    dialect, ids, now, name=name, actor="ann", reason=""
                )
            )
        )
        self.did("pause_queue")

    @rule(name=st.just("mail"))
    def resume_queue(self, name: str) -> None:
        self.both(
            lambda store: store.run(
                lambda dialect, ids, now: admin.resume_queue(
                    dialect, ids, now, name=name, actor="ann"
                )
            )
        )
        self.did("resume_queue")

    # -- what always holds ---------------------------------------------------------------------------

    @invariant()
    def all_three_agree(self) -> None:
        if not hasattr(self, "stores"):
            return
        rows = [{t.id: t for t in self.run(all_tasks(store))} for store in self.stores]
        assert {i: shown(t) for i, t in rows[0].items()} == {
            i: shown(t) for i, t in rows[1].items()
        }
        tasks = rows[0].values()
        assert {t.id: (t.status, t.attempts) for t in tasks} == {
            i: (status, self.model.attempts[i]) for i, status in self.model.status.items()
        }
        real = Counter((t.queue, t.type, int(t.priority), t.status.value) for t in tasks)
        names = sorted({name for t in tasks for name in t.limit_names})
        for store in self.stores:
            counted = {tuple(row[:4]): row[4] for row in self.run(store.counters())}
            assert counted == dict(real)
            for name, _, running, parked, _ in self.run(store.query("get_limits", names=names)):
                held = [t for t in tasks if name in t.limit_names]
                assert running == sum(t.status is Status.RUNNING for t in held)
                assert running <= 1 or name.endswith("True")
                assert parked == sum(t.status is Status.QUEUED and t.gate == name for t in held)


def digest(answer: object) -> object:
    """Answers without what may differ: the order within a batch, and sets against lists."""
    if isinstance(answer, list):
        return [digest(each) for each in answer]
    if hasattr(answer, "tasks"):
        return sorted(str(shown(task)) for task in answer.tasks)
    if hasattr(answer, "code"):
        return answer.code
    if hasattr(answer, "after"):
        return shown(answer.after)
    return answer


async def empty(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(EMPTY)
    await connection.close()


def test_stores_and_model_agree(pg_dsn: str) -> None:
    with asyncio.Runner() as runner:
        Machine.dsn = pg_dsn
        Machine.loop = runner.get_loop()
        driver = PostgresDriver(pg_dsn, Machine.clock, server_time=False, size=2)
        Machine.postgres = Store(
            driver, PostgresDialect(Machine.clock.monotonic), Ids(random.Random(2))
        )
        runner.run(Machine.postgres.open())
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=16,
                stateful_step_count=50,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
            ),
        )
        runner.run(Machine.postgres.close())
    assert set(Machine.seen) == VERBS, f"never seen: {VERBS - set(Machine.seen)}"
