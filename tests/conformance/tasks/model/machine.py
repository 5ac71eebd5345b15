"""The machine's hands: every rule does the same to both stores and to the model, and notes that it did."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar

import asyncpg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from holdfast.clock import VirtualClock
from holdfast.core.command import Command, Instruction
from holdfast.core.decide import Ruling, Transition
from holdfast.core.ids import Ids
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import Submission, submit
from holdfast.core.task import Status, Task, TaskOptions
from holdfast.errors import HoldfastError
from holdfast.store.backlog import BacklogStore
from holdfast.store.cascades import CascadeStore
from holdfast.store.feed import FeedStore
from holdfast.store.links import LinkStore
from holdfast.store.reads import Reads
from holdfast.store.runs import RunStore
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.sqlite.driver import SqliteDriver
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import all_tasks, read_all, shown
from tests.conformance.tasks.model.model import MAX_ATTEMPTS, MAX_DEATHS, Model
from tests.statements import query

T = TypeVar("T")
BATCHES = (1, 2, 3, 1_000)
"""Edges to dependents that one transaction looks at; small ones cut the cascades of the families here."""
QUEUES = ("default", "mail")
PROJECTS = ("default", "forge")
EMPTY = """TRUNCATE holdfast_task, holdfast_edge, holdfast_feed, holdfast_counter, holdfast_limit,
    holdfast_queue, holdfast_schedule, holdfast_node, holdfast_cascade,
    holdfast_cascade_held CASCADE;
UPDATE holdfast_feed_head SET head = 0, oldest = 1, counted_through = 0"""


PARTS: dict[str, type] = {
    "backlog": BacklogStore,
    "cascades": CascadeStore,
    "feed": FeedStore,
    "links": LinkStore,
    "reads": Reads,
    "runs": RunStore,
}
"""The parts of a store that move tasks, or read tasks and their events."""


class WatchedStore(Store):
    """Notes which of its verbs, and of those of its parts, succeeded."""

    seen: ClassVar[Counter[str]] = Counter()

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in PARTS:
            return WatchedPart(name, value)
        return value if name.startswith("_") else watched(name, value)


class WatchedPart:
    """A part of a watched store."""

    def __init__(self, name: str, part: object) -> None:
        self._name = name
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return watched(f"{self._name}.{name}", getattr(self._part, name))


def watched(name: str, verb: Any) -> Any:
    if not inspect.iscoroutinefunction(verb):
        return verb

    async def call(*args: Any, **kwargs: Any) -> Any:
        answer = await verb(*args, **kwargs)
        WatchedStore.seen[name] += 1
        return answer

    return call


class Hands(RuleBasedStateMachine):
    """What all rules need; the rules are in the classes beside this one."""

    dsn: ClassVar[str]
    loop: ClassVar[asyncio.AbstractEventLoop]
    over_postgres: ClassVar[Callable[[int], Store]]
    """A store, given its batch, over the one driver that is open."""
    clock: ClassVar[VirtualClock] = VirtualClock()
    done: ClassVar[Counter[str]] = Counter()
    commands: ClassVar[Counter[type]] = Counter()
    kinds: ClassVar[Counter[str]] = Counter()

    @initialize(batch=st.sampled_from(BATCHES))
    def begin(self, batch: int) -> None:
        driver = SqliteDriver("", self.clock, inline=True)
        self.sqlite = WatchedStore(driver, SqliteDialect(batch), Ids(random.Random(1)))
        self.run(self.sqlite.open())
        self.run(empty(self.dsn))
        self.stores = (self.sqlite, type(self).over_postgres(batch))
        self.model = Model()
        self.claims: dict[str, Task] = {}
        self.reports = 0
        self.old_claims: list[Task] = []
        self.limited: set[str] = set()
        """Tasks that count against a limit."""
        self.number = 0
        self.projects: dict[str, str] = {}

    def teardown(self) -> None:
        """The lives of all tasks, as the feeds tell them, are the same too."""
        if not hasattr(self, "stores"):
            return
        lives = []
        for store in self.stores:
            life: dict[str, list[Any]] = {}
            for event in self.run(read_all(store)):
                life.setdefault(event.task_id, []).append((event.kind, event.at, event.data))
                self.kinds[event.kind] += 1
            lives.append(life)
        assert lives[0] == lives[1]
        self.run(self.sqlite.close())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

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
        self.settle()
        return answers[0]

    def settle(self) -> None:
        """What the transactions have left of cascades, as sweepers do: the stores agree after each batch, and
        with the model, which knows no batches, when nothing is left."""
        while parents := self.cascades():
            for parent_id in parents:
                done = [self.run(store.cascades.settle(parent_id)) for store in self.stores]
                assert done[0] == done[1] > 0
                rows = [{t.id: shown(t) for t in self.run(all_tasks(s))} for s in self.stores]
                assert rows[0] == rows[1]
                self.did("settle")

    def cascades(self) -> list[str]:
        left = [self.run(store.cascades.pending()) for store in self.stores]
        assert left[0] == left[1]
        if not left[0]:
            assert not any(self.run(store.cascades.held()) for store in self.stores)
        return left[0]

    def order(self, *orders: Instruction) -> list[Ruling]:
        self.tick()
        answers: list[Ruling] = self.both(lambda store: store.apply(orders))
        for order, answer in zip(orders, answers, strict=True):
            self.commands[type(order.command)] += isinstance(answer, Transition)
        return answers

    def ask(self, task_id: str, command: Command, fence: int | None = None) -> Ruling:
        return self.order(Instruction(task_id, command, fence=fence))[0]

    def did(self, rule: str) -> None:
        self.done[rule] += 1

    def pick(self, number: int, *statuses: Status) -> str | None:
        found = sorted(i for i, s in self.model.status.items() if not statuses or s in statuses)
        return found[number % len(found)] if found else None

    def running(self) -> list[Task]:
        """Claims that hold, in the order of their ids."""
        held = sorted(i for i in self.claims if self.model.status[i] is Status.RUNNING)
        return [self.claims[i] for i in held]

    def has(self, status: Status) -> bool:
        return status in self.model.status.values()

    def asked(self, *, id_given: bool = True, **fields: Any) -> Submission:
        """A request with a new id. `id_given`: the caller supplied it."""
        self.number += 1
        defaults: dict[str, Any] = {
            "type": "work",
            "max_attempts": MAX_ATTEMPTS,
            "options": TaskOptions(max_deaths=MAX_DEATHS),
            # By queue, so that most pairs of tasks may depend on each other.
            "project": PROJECTS[fields.get("queue") == QUEUES[-1]],
        }
        request = EnqueueRequest(**(defaults | fields))
        self.projects[f"t{self.number:04}"] = request.project or PROJECTS[0]
        return submit(
            request, task_id=f"t{self.number:04}", now=self.clock.now(), id_given=id_given
        )

    @invariant()
    def all_three_agree(self) -> None:
        if not hasattr(self, "stores"):
            return
        self.model.check()
        rows = [{t.id: t for t in self.run(all_tasks(store))} for store in self.stores]
        ours, theirs = ({i: shown(t) for i, t in found.items()} for found in rows)
        assert ours == theirs
        tasks = rows[0].values()
        assert {t.id: (t.status, t.attempts) for t in tasks} == {
            i: (status, self.model.attempts[i]) for i, status in self.model.status.items()
        }
        for task in tasks:
            if task.id in self.model.fell and task.is_dead:
                assert task.failure is not None
                assert task.failure.cause in self.model.dead(task.id)
        for store in self.stores:
            check_figures(list(tasks), self.run(store.feed.counters()), self.limits(store, tasks))
            for project in PROJECTS:
                real = Counter((t.queue, t.status.value) for t in tasks if t.project == project)
                counted = self.run(store.feed.project_counters(project))
                assert {(queue, status): n for queue, status, n in counted} == dict(real)

    def limits(self, store: Store, tasks: Any) -> list[Any]:
        names = sorted({name for t in tasks for name in t.limit_names})
        return self.run(query(store, "get_limits", names=names))


def check_figures(tasks: list[Task], counters: list[Any], limits: list[Any]) -> None:
    """What is kept is what a count gives."""
    real = Counter((t.queue, t.type, int(t.priority), t.status.value) for t in tasks)
    assert {tuple(row[:4]): row[4] for row in counters} == dict(real)
    for name, _, running, parked, *_ in limits:
        held = [t for t in tasks if name in t.limit_names]
        assert running == sum(t.status is Status.RUNNING for t in held)
        assert running <= 1 or name.endswith("True")
        assert parked == sum(t.status is Status.QUEUED and t.gate == name for t in held)


def digest(answer: object) -> object:
    """Answers without what may differ: the order within a batch, and sets against lists."""
    if isinstance(answer, (list, tuple)):
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
