"""The ledger over every backend: one effect, its answer ever after, takeover with a fence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core import ledger as rules
from holdfast.errors import (
    BadConfig,
    EffectFailed,
    IdempotencyConflict,
    InProgress,
    InvalidInput,
    LeaseLost,
    PayloadTooLarge,
    UnserialisablePayload,
)
from holdfast.primitives.idempotency import (
    FAMILIES,
    Done,
    Failed,
    Ledger,
    OnError,
    Replay,
    State,
    Turn,
)
from holdfast.primitives.metrics import Metrics
from tests.acceptance.apps.harness import eventually

PLACE = ("account:7", "charge", "key-1")
REQUEST = {"amount": 5, "to": ["ann", None]}
LEASE = 9.0
RETENTION = 100.0


class Effect:
    """Counts its runs; may answer, fail, or wait until it is let go."""

    def __init__(self, answer: Any = "paid", error: BaseException | None = None) -> None:
        self.turns: list[Turn] = []
        self.answer = answer
        self.error = error
        self.gate: asyncio.Event | None = None

    async def __call__(self, turn: Turn) -> Any:
        self.turns.append(turn)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.answer

    @property
    def runs(self) -> int:
        return len(self.turns)


class Many:
    """Any number of ledgers on the same data, as several processes would have them."""

    def __init__(self, url: str, clock: VirtualClock) -> None:
        self.url = url
        self.clock = clock
        self.meter = Metrics(FAMILIES)
        self._made: list[Ledger] = []

    def open(self, owner: str | None = None) -> Ledger:
        if self._made and self.url in ("memory://", "sqlite://"):
            store = self._made[0].desk._store  # in memory: the same store under another name
            return Ledger(
                store,
                clock=self.clock,
                owner=owner,
                lease_seconds=LEASE,
                retention_seconds=RETENTION,
                meter=self.meter,
            )
        made = Ledger.connect(
            self.url,
            clock=self.clock,
            owner=owner,
            lease_seconds=LEASE,
            retention_seconds=RETENTION,
            meter=self.meter,
        )
        self._made.append(made)
        return made

    async def close(self) -> None:
        for ledger in self._made:
            await ledger.close()

    def counted(self, name: str) -> float:
        return self.meter.value(f"holdfast_ledger_{name}", operation=PLACE[1])


@pytest.fixture(params=["memory", "sqlite-memory", "sqlite-file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite-memory":
            return "sqlite://"
        case "sqlite-file":
            return f"sqlite:///{tmp_path}/ledger.db"
    dsn: str = request.getfixturevalue("pg_dsn")
    return dsn


@pytest.fixture
async def many(url: str, clock: VirtualClock) -> AsyncIterator[Many]:
    many = Many(url, clock)
    yield many
    await many.close()


@pytest.fixture
async def ledger(many: Many) -> Ledger:
    ledger = many.open("ann")
    await ledger.open()
    return ledger


@pytest.fixture
async def other(many: Many, ledger: Ledger) -> Ledger:
    other = many.open("bob")
    await other.open()
    return other


def pass_time(clock: VirtualClock, seconds: float) -> None:
    clock.set(clock.now() + seconds)


async def started(ledger: Ledger) -> Turn:
    turn = await ledger.begin(*PLACE, REQUEST)
    assert isinstance(turn, Turn)
    return turn


async def test_a_repeat_gets_the_answer_of_the_first_call(ledger: Ledger, other: Ledger) -> None:
    answers: list[Any] = ["paid", None, False, 0, {"b": 1, "a": [1.5, None]}, []]
    for n, answer in enumerate(answers):
        place = ("account:7", "charge", f"key-{n}")
        effect = Effect(answer)
        assert await ledger.run(*place, REQUEST, effect) == answer
        for repeat in (ledger, other):
            assert await repeat.run(*place, dict(reversed(REQUEST.items())), effect) == answer
        assert effect.runs == 1
    entry = await other.get(*PLACE)
    assert entry is not None
    assert (entry.state, entry.attempt, entry.lease_until) == (State.DONE, 1, None)
    assert entry.owner.startswith("ann#")


async def test_the_first_caller_gets_the_very_value_that_repeats_get(ledger: Ledger) -> None:
    effect = Effect({"pair": (1, 2)})
    first = await ledger.run(*PLACE, REQUEST, effect)
    assert first == {"pair": [1, 2]} == await ledger.run(*PLACE, REQUEST, effect)


async def test_another_request_under_the_same_key_is_refused(
    many: Many, ledger: Ledger, other: Ledger
) -> None:
    effect = Effect()
    turn = await started(ledger)
    for state in ("in progress", "done"):
        with pytest.raises(IdempotencyConflict, match="charge 'key-1' of account:7"):
            await other.run(*PLACE, {"amount": 6}, effect)
        if state == "in progress":
            await ledger.finish(turn, 1)
    assert effect.runs == 0
    assert many.counted("conflicts_total") == 2


async def test_scopes_operations_and_keys_are_apart(ledger: Ledger) -> None:
    effect = Effect()
    for scope, operation, key in (
        *(("a", "b", "c"), ("a", "c", "b"), ("b", "a", "c"), ("a'b", "c", "d"), ("ž", "雪", "🙂")),
    ):
        await ledger.run(scope, operation, key, {"for": key}, effect)
    assert effect.runs == 5
    assert len({turn.id for turn in effect.turns}) == 5


async def test_a_concurrent_repeat_hears_who_and_since_when(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    begun = clock.now()
    turn = await started(ledger)
    pass_time(clock, 2.0)
    with pytest.raises(InProgress) as raised:
        await other.run(*PLACE, REQUEST, Effect())
    error = raised.value
    assert (error.owner, error.since, error.lease_until) == (turn.owner, begun, begun + LEASE)
    assert error.retryable
    assert turn.owner in str(error)
    assert many.counted("in_flight_total") == 1


async def test_a_repeat_may_wait_for_the_answer(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    effect = Effect()
    turn = await started(ledger)
    waiting = asyncio.create_task(other.run(*PLACE, REQUEST, effect, wait=60.0))
    await eventually(lambda: many.counted("in_flight_total") == 1 and bool(clock.next_wake()))
    await ledger.finish(turn, "paid")
    await advance(clock, waiting)
    assert await waiting == "paid"
    assert effect.runs == 0


async def test_whoever_waits_long_enough_takes_over(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    effect = Effect()
    turn = await started(ledger)
    waiting = asyncio.create_task(other.run(*PLACE, REQUEST, effect, wait=60.0))
    await advance(clock, waiting)
    assert await waiting == "paid"
    taken = effect.turns[0]
    assert (taken.attempt, taken.taken_over_from) == (2, turn.owner)
    assert taken.fence > turn.fence
    assert many.counted("takeovers_total") == 1


async def test_waiting_ends_when_it_was_said_to(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    await started(ledger)
    begun = clock.now()
    waiting = asyncio.create_task(other.run(*PLACE, REQUEST, Effect(), wait=3.0))
    await advance(clock, waiting)
    with pytest.raises(InProgress):
        await waiting
    assert clock.now() - begun == pytest.approx(3.0)


async def advance(clock: VirtualClock, task: asyncio.Task[Any]) -> None:
    """Moves time from pause to pause until the task is done."""
    while not task.done():
        await eventually(lambda: task.done() or clock.next_wake() is not None)
        due = clock.next_wake()
        if due is not None and not task.done():
            clock.set(due)


async def test_whoever_was_taken_over_cannot_write_its_outcome(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    old = await started(ledger)
    pass_time(clock, LEASE)
    new = await started(other)
    for late in (
        *(ledger.finish(old, "old"), ledger.fail(old, ValueError()), ledger.abandon(old)),
        ledger.extend(old),
    ):
        with pytest.raises(LeaseLost, match="taken over"):
            await late
    await other.finish(new, "new")
    with pytest.raises(LeaseLost):
        await ledger.finish(old, "old")
    assert await ledger.run(*PLACE, REQUEST, Effect()) == "new"
    assert many.counted("fenced_total") == 4


async def test_a_lease_that_runs_is_not_taken(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    turn = await started(ledger)
    for _ in range(3):
        pass_time(clock, LEASE - 0.5)
        with pytest.raises(InProgress):
            await other.begin(*PLACE, REQUEST)
        await ledger.extend(turn)
    pass_time(clock, LEASE)
    assert isinstance(await other.begin(*PLACE, REQUEST), Turn)


async def test_a_late_owner_that_nobody_took_over_may_still_end(
    ledger: Ledger, clock: VirtualClock
) -> None:
    turn = await started(ledger)
    pass_time(clock, 5 * LEASE)
    await ledger.finish(turn, "late but alone")
    assert await ledger.run(*PLACE, REQUEST, Effect()) == "late but alone"


async def test_the_lease_of_a_running_effect_is_renewed(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    effect = Effect()
    effect.gate = asyncio.Event()
    running = asyncio.create_task(ledger.run(*PLACE, REQUEST, effect))
    await eventually(lambda: effect.runs == 1)
    for _ in range(9):
        await eventually(lambda: clock.next_wake() is not None)
        due = clock.next_wake()
        assert due is not None
        clock.set(due)
        await renewed(ledger, clock.now() + LEASE)
        with pytest.raises(InProgress):
            await other.run(*PLACE, REQUEST, effect)
    effect.gate.set()
    assert await running == "paid"
    assert effect.runs == 1
    assert clock.next_wake() is None, "nobody goes on renewing"


async def renewed(ledger: Ledger, until: float) -> None:
    async with asyncio.timeout(10):
        while True:
            entry = await ledger.get(*PLACE)
            assert entry is not None
            if entry.lease_until == until:
                return
            await asyncio.sleep(0)


async def test_an_error_is_forgotten_and_the_next_turn_is_told(
    ledger: Ledger, other: Ledger
) -> None:
    effect = Effect(error=ConnectionError("no reply"))
    with pytest.raises(ConnectionError):
        await ledger.run(*PLACE, REQUEST, effect)
    entry = await other.get(*PLACE)
    assert entry is not None
    assert (entry.state, entry.outcome_json) == (State.ABANDONED, None)
    with pytest.raises(IdempotencyConflict):
        await other.run(*PLACE, {"amount": 6}, effect)
    effect.error = None
    assert await other.run(*PLACE, REQUEST, effect) == "paid"
    first, second = effect.turns
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.id == second.id
    assert second.fence > first.fence
    assert second.taken_over_from is None


async def test_an_error_may_be_kept_as_the_answer(ledger: Ledger, other: Ledger) -> None:
    effect = Effect(error=ValueError("no such account \udcff\x00"))
    with pytest.raises(ValueError, match="no such account"):
        await ledger.run(*PLACE, REQUEST, effect, on_error=OnError.KEEP)
    with pytest.raises(EffectFailed, match="ValueError: no such account"):
        await other.run(*PLACE, REQUEST, effect)
    replay = await other.begin(*PLACE, REQUEST)
    assert isinstance(replay, Replay)
    assert isinstance(replay.outcome, Failed)
    assert replay.outcome.error == "ValueError"
    assert effect.runs == 1


async def test_the_caller_may_choose_by_error(ledger: Ledger) -> None:
    def policy(error: Exception) -> OnError:
        return OnError.KEEP if isinstance(error, ValueError) else OnError.FORGET

    effect = Effect(error=TimeoutError())
    with pytest.raises(TimeoutError):
        await ledger.run(*PLACE, REQUEST, effect, on_error=policy)
    effect.error = ValueError("bad")
    with pytest.raises(ValueError, match="bad"):
        await ledger.run(*PLACE, REQUEST, effect, on_error=policy)
    with pytest.raises(EffectFailed):
        await ledger.run(*PLACE, REQUEST, effect, on_error=policy)
    assert effect.runs == 2


async def test_a_cancelled_call_is_free_at_once(ledger: Ledger, other: Ledger) -> None:
    effect = Effect()
    effect.gate = asyncio.Event()
    running = asyncio.create_task(ledger.run(*PLACE, REQUEST, effect))
    await eventually(lambda: effect.runs == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    effect.gate = None
    assert await other.run(*PLACE, REQUEST, effect) == "paid"
    assert [turn.attempt for turn in effect.turns] == [1, 2]


async def test_an_answer_that_cannot_be_kept_is_not_worked_for_twice(ledger: Ledger) -> None:
    effect = Effect(object())
    with pytest.raises(UnserialisablePayload):
        await ledger.run(*PLACE, REQUEST, effect)
    with pytest.raises(EffectFailed, match="UnserialisablePayload"):
        await ledger.run(*PLACE, REQUEST, effect)
    assert effect.runs == 1


async def test_what_is_said_twice_is_an_echo(ledger: Ledger) -> None:
    """A reply may be lost: the same end again is fine, another end is not."""
    turn = await started(ledger)
    await ledger.finish(turn, "paid")
    await ledger.finish(turn, "paid")
    with pytest.raises(LeaseLost):
        await ledger.finish(turn, "something else")
    with pytest.raises(LeaseLost):
        await ledger.abandon(turn)


async def test_a_beginning_whose_answer_was_lost_is_found_again(ledger: Ledger) -> None:
    ask = ledger.desk.ask(*PLACE, REQUEST)
    first = await ledger.desk.begin(ask, None)
    again = await ledger.desk.begin(ask, None)
    assert isinstance(first, rules.Start)
    assert isinstance(again, rules.Start)
    assert again.turn == first.turn
    await ledger.finish(again.turn, 1)


async def test_entries_are_kept_for_their_retention(
    many: Many, ledger: Ledger, clock: VirtualClock
) -> None:
    effect = Effect()
    await ledger.run(*PLACE, REQUEST, effect)
    pass_time(clock, RETENTION - 0.1)
    assert await ledger.prune() == 0
    await ledger.run(*PLACE, REQUEST, effect)
    assert effect.runs == 1
    pass_time(clock, 0.1)
    assert await ledger.prune() == 1
    assert await ledger.get(*PLACE) is None
    await ledger.run(*PLACE, REQUEST, effect)
    assert effect.runs == 2
    assert effect.turns[1].fence > effect.turns[0].fence, "fences rise even over a pruned entry"
    assert many.meter.value("holdfast_ledger_pruned_total") == 1


async def test_a_turn_from_before_the_pruning_is_refused(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    old = await started(ledger)
    pass_time(clock, LEASE + RETENTION)
    assert await ledger.prune() == 1
    new = await started(other)
    with pytest.raises(LeaseLost):
        await ledger.finish(old, "old")
    await other.finish(new, "new")


async def test_pruning_takes_no_more_than_asked_and_a_ledger_does_it_by_the_way(
    ledger: Ledger, clock: VirtualClock
) -> None:
    for n in range(5):
        await ledger.run("s", "o", f"k{n}", n, Effect())
    await started(ledger)
    pass_time(clock, RETENTION)
    assert [await ledger.prune(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    pass_time(clock, LEASE)
    await ledger.run("s", "o", "new", 1, Effect())
    assert await ledger.get(*PLACE) is None


async def test_a_recovery_finds_what_was_not_ended(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    """An intent is committed before the effect; the outside is asked by an id that never changes."""
    outside: set[str] = set()
    turn = await started(ledger)
    outside.add(turn.id)  # acted, and died
    for n in range(3):
        await ledger.begin("account:8", "charge", f"k{n}", n)
        pass_time(clock, 1.0)
    await ledger.run("account:9", "charge", "done", 1, Effect())
    assert await other.unfinished() == []
    pass_time(clock, LEASE)
    found = await other.unfinished()
    assert [entry.place.key for entry in found] == ["key-1", "k0", "k1", "k2"]
    assert found[0].id == turn.id
    assert [e.place.key for e in await other.unfinished("account:8", limit=2)] == ["k0", "k1"]

    async def effect(again: Turn) -> str:
        assert (again.attempt, again.id) == (2, turn.id)
        return "was there" if again.id in outside else "acted"

    assert await other.run(*PLACE, REQUEST, effect) == "was there"


async def test_a_decorated_function_is_idempotent(ledger: Ledger) -> None:
    acted: list[Any] = []

    @ledger.once("account:7", "charge", key=lambda request: request["id"])
    async def charge(turn: Turn, request: dict[str, Any]) -> str:
        acted.append(request)
        return f"charged {request['amount']}"

    for _ in range(2):
        assert await charge({"id": "a", "amount": 5}) == "charged 5"
    with pytest.raises(IdempotencyConflict):
        await charge({"id": "a", "amount": 6})
    assert len(acted) == 1
    assert charge.__name__ == "charge"


async def test_what_happened_is_counted(many: Many, ledger: Ledger) -> None:
    for _ in range(3):
        await ledger.run(*PLACE, REQUEST, Effect())
    assert (many.counted("misses_total"), many.counted("hits_total")) == (1, 2)
    assert many.counted("effect_seconds") == 1


@pytest.mark.parametrize(
    ("place", "request_", "error"),
    [
        (("", "o", "k"), 1, InvalidInput),
        (("s", "o\n", "k"), 1, InvalidInput),
        (("s", "o", "k" * 201), 1, InvalidInput),
        (("holdfast.step", "o", "k"), 1, InvalidInput),
        (("s", "o", "k"), object(), UnserialisablePayload),
        (("s", "o", "k"), float("nan"), UnserialisablePayload),
        (("s", "o", "k"), "x" * 300_000, PayloadTooLarge),
    ],
)
async def test_bad_input_is_a_typed_error_and_nothing_runs(
    place: tuple[str, str, str], request_: object, error: type[Exception]
) -> None:
    effect = Effect()
    async with Ledger.connect("memory://") as ledger:
        with pytest.raises(error):
            await ledger.run(*place, request_, effect)
    assert effect.runs == 0


def test_times_that_cannot_hold_are_refused() -> None:
    bad: list[Callable[[], object]] = [
        lambda: Ledger.connect("memory://", lease_seconds=0),
        lambda: Ledger.connect("memory://", lease_seconds=10, retention_seconds=9),
        lambda: Ledger.connect("memory://", retention_seconds=float("nan")),
        lambda: Ledger.connect("nonsense://"),
    ]
    for make in bad:
        with pytest.raises(BadConfig):
            make()


async def test_a_done_outcome_is_told_apart_from_none(ledger: Ledger) -> None:
    assert await ledger.get(*PLACE) is None
    await ledger.run(*PLACE, REQUEST, Effect(None))
    replay = await ledger.begin(*PLACE, REQUEST)
    assert isinstance(replay, Replay)
    assert replay.outcome == Done("null")


async def test_callers_that_race_run_one_effect(many: Many, ledger: Ledger, other: Ledger) -> None:
    effect = Effect()
    third = many.open("cid")
    callers = [ledger, other, third] * 10
    answers = await asyncio.gather(
        *(each.run(*PLACE, REQUEST, effect) for each in callers), return_exceptions=True
    )
    assert effect.runs == 1
    assert {str(a) for a in answers if not isinstance(a, InProgress)} == {"paid"}
    assert await third.run(*PLACE, REQUEST, effect) == "paid"
