"""Steps of tasks: one effect for all attempts, and refusals of a runner that lost its task."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Instruction
from holdfast.core.decide import Refusal, Ruling
from holdfast.core.decision import Decision, Question
from holdfast.core.keywords import TaskRequest
from holdfast.core.ledger import (
    STEP_SCOPE,
    EntryKey,
    EntryLease,
    EntryRequest,
    EntryVerdict,
    Outcome,
    State,
)
from holdfast.core.once import OnError
from holdfast.core.task import Task, TaskOptions
from holdfast.engine.context import Context
from holdfast.engine.follow_ups import NO_FOLLOW_UPS
from holdfast.engine.handle import TaskHandle
from holdfast.errors import (
    EffectFailed,
    IdempotencyConflict,
    InProgress,
    InvalidInput,
    LeaseLost,
)
from holdfast.store.decisions import Asked
from holdfast.store.ledger import EntryStore
from holdfast.store.sqlite.driver import SqliteDriver
from holdfast.store.store import Store
from tests.cancelling import CancelAt, cancelled_everywhere
from tests.conformance.tasks.helpers import claim_one, complete, failing, put, runner_says


class Desk:
    """The calls of a context to the engine, answered by the store directly."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.entries = EntryStore(store)

    async def report(self, order: Instruction) -> Ruling:
        return (await self._store.apply([order]))[0]

    def new_id(self) -> str:
        return self._store.ids.task(self._store.now())

    def holds_up(self, tx: object) -> bool:
        return self._store.holds_up(tx)

    async def parents(self, task_id: str) -> dict[str, Task]:
        return {}

    async def begin_step(self, ask: EntryRequest, tx: object) -> EntryVerdict:
        return await self.entries.begin(ask, tx=tx)

    async def end_step(self, turn: EntryLease, outcome: Outcome | None, tx: object) -> None:
        await self.entries.end(turn, outcome, tx=tx)

    async def ask(self, task: Task, question: Question) -> Decision | Asked | Refusal:
        return await self._store.decisions.ask(task.id, task.fence, question)

    async def enqueue(self, request: TaskRequest[Any]) -> TaskHandle[Any]:
        return await NO_FOLLOW_UPS.enqueue(request)

    source = NO_FOLLOW_UPS.source


class Effect:
    def __init__(self, answer: Any = "charged") -> None:
        self.turns: list[EntryLease] = []
        self.answer = answer
        self.error: BaseException | None = None
        self.during: Any = None

    async def __call__(self, turn: EntryLease) -> Any:
        self.turns.append(turn)
        if self.during is not None:
            await self.during()
        if self.error is not None:
            raise self.error
        return self.answer


async def context(store: Store) -> Context:
    """The run of the next claim."""
    return Context(await claim_one(store), Desk(store))


async def taken_over(store: Store, clock: VirtualClock) -> Context:
    """Lets the lease of the runner expire, and claims the task again."""
    clock.set(clock.now() + 10.0)
    await store.sweep()
    return await context(store)


async def entry(store: Store, step: str = "charge") -> Any:
    return await EntryStore(store).get(EntryKey("holdfast.step", step, "a"))


@pytest.fixture
async def first(store: Store) -> Context:
    await put(store, "a", max_attempts=5, options=TaskOptions(max_deaths=10))
    return await context(store)


async def test_a_step_runs_once_over_all_attempts(
    store: Store, clock: VirtualClock, first: Context
) -> None:
    effect = Effect({"paid": None})
    for _ in range(2):
        assert await first.once("charge", effect) == {"paid": None}
    await runner_says(store, first.task, failing())
    clock.set(clock.now() + 100.0)
    second = await context(store)
    assert await second.once("charge", effect) == {"paid": None}
    third = await taken_over(store, clock)
    assert await third.once("charge", effect) == {"paid": None}
    assert len(effect.turns) == 1
    assert await third.once("ship", effect) == {"paid": None}
    assert [turn.entry_key.operation for turn in effect.turns] == ["charge", "ship"]


async def test_steps_belong_to_their_task(store: Store, first: Context) -> None:
    effect = Effect()
    await put(store, "b")
    other = await context(store)
    await asyncio.gather(first.once("charge", effect), other.once("charge", effect))
    assert len({turn.id for turn in effect.turns}) == 2


async def test_a_dead_runner_is_taken_over_and_the_next_attempt_is_numbered(
    store: Store, clock: VirtualClock, first: Context
) -> None:
    """The lease of the task decides: as soon as another claim has the task, the step is free."""
    desk = Desk(store)
    await desk.begin_step(first.step_request("charge", None), None)  # Then the runner died.
    second = await taken_over(store, clock)
    effect = Effect()
    assert await second.once("charge", effect) == "charged"
    turn = effect.turns[0]
    assert (turn.attempt, turn.fence) == (2, second.fence)
    assert turn.taken_over_from is not None


async def test_a_zombie_is_refused_before_it_acts(
    store: Store, clock: VirtualClock, first: Context
) -> None:
    second = await taken_over(store, clock)
    effect = Effect()
    with pytest.raises(LeaseLost, match="taken away"):
        await first.once("charge", effect)
    assert first.cancel_requested
    with pytest.raises(LeaseLost):
        await first.progress(0.5)
    assert effect.turns == []
    assert await second.once("charge", effect) == "charged"
    with pytest.raises(LeaseLost):
        await first.once("charge", effect)


@pytest.mark.parametrize("when", ["before", "during", "after"])
async def test_a_zombie_that_acts_late_writes_nothing(
    store: Store, clock: VirtualClock, first: Context, when: str
) -> None:
    """The old runner continues before the new one starts the step, during the step, or after it."""
    late, good = Effect("late"), Effect("good")

    async def freeze() -> None:
        second = await taken_over(store, clock)
        if when == "during":
            good.during = wake
        if when != "before":
            assert await second.once("charge", good) == "good"

    async def wake() -> None:
        assert (await entry(store)).fence == good.turns[0].fence

    late.during = freeze
    with pytest.raises(LeaseLost):
        await first.once("charge", late)
    stored = await entry(store)
    if when == "before":
        assert (stored.state, stored.outcome_json) == (State.IN_PROGRESS, None)
    else:
        assert (stored.state, stored.outcome_json) == (State.DONE, '"good"')


async def test_an_ended_task_takes_no_more_steps(store: Store, first: Context) -> None:
    await complete(store, first.task)
    with pytest.raises(LeaseLost):
        await first.once("charge", Effect())


async def test_a_step_that_failed_may_be_tried_again_at_once(store: Store, first: Context) -> None:
    effect = Effect()
    effect.error = ConnectionError("gone")
    with pytest.raises(ConnectionError):
        await first.once("charge", effect)
    assert (await entry(store)).state is State.ABANDONED
    effect.error = None
    assert await first.once("charge", effect) == "charged"
    assert [turn.attempt for turn in effect.turns] == [1, 2]


async def test_a_failure_of_a_step_may_be_its_answer(store: Store, first: Context) -> None:
    effect = Effect()
    effect.error = ValueError("no such account")
    with pytest.raises(ValueError, match="no such"):
        await first.once("charge", effect, on_error=OnError.KEEP)
    with pytest.raises(EffectFailed, match="no such account"):
        await first.once("charge", effect)


async def test_one_step_does_not_run_twice_at_once(store: Store, first: Context) -> None:
    effect = Effect()
    inner: list[BaseException] = []

    async def again() -> None:
        with pytest.raises(InProgress) as raised:
            await first.once("charge", effect)
        inner.append(raised.value)

    effect.during = again
    assert await first.once("charge", effect) == "charged"
    assert len(inner) == 1
    assert len(effect.turns) == 1


async def test_a_step_that_means_something_else_is_refused(store: Store, first: Context) -> None:
    await first.once("charge", Effect(), request={"amount": 5})
    with pytest.raises(IdempotencyConflict):
        await first.once("charge", Effect(), request={"amount": 6})
    with pytest.raises(InvalidInput):
        await first.once("", Effect())


async def test_steps_live_as_long_as_their_task(
    store: Store, clock: VirtualClock, first: Context
) -> None:
    await first.once("charge", Effect())
    await first.once("ship", Effect())
    clock.set(clock.now() + 1e8)
    entries = EntryStore(store)
    assert await entries.prune(100) == 0, "time alone does not end them"
    assert await entries.unfinished(None, 10) == []
    await store.sweep()
    await complete(store, await claim_one(store))
    clock.set(clock.now() + 1.0)
    now = clock.now()
    assert await store.prune(before=now, dead_before=now, feed_before=0.0) == 1
    assert await entry(store) is None
    assert await entry(store, "ship") is None


async def test_a_step_cancelled_at_any_await_is_done_or_free_within_the_same_attempt(
    store: Store, first: Context
) -> None:
    desk, task = Desk(store), first.task

    async def scene(at: CancelAt) -> None:
        if isinstance(store._driver, SqliteDriver):
            store._driver._commit_seconds = 1e9  # On a quick disk it writes without suspending.
        context, step = Context(task, desk), f"step-{at._suspension}"
        effect, again = Effect(), Effect()
        with contextlib.suppress(asyncio.CancelledError):
            await at.run(context.once(step, effect))
            assert not at.has_struck
        entry = await desk.entries.get(EntryKey(STEP_SCOPE, step, task.id))
        assert entry is None or entry.state is not State.IN_PROGRESS
        assert await context.once(step, again) == "charged"
        assert len(effect.turns) + len(again.turns) == 1

    assert await cancelled_everywhere(scene) >= 2
