"""The ledger against a model that knows nothing of fences, SQL or scripts.

LEDGER_EXAMPLES=5000 pytest tests/unit/primitives/test_ledger_machine.py     # the long campaign
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from holdfast.clock import VirtualClock
from holdfast.core import ledger as rules
from holdfast.errors import EffectFailed, HoldfastError, IdempotencyConflict, InProgress, LeaseLost
from holdfast.primitives.idempotency import (
    Answered,
    Done,
    EntryLease,
    Failed,
    Ledger,
    OnError,
    State,
)

T = TypeVar("T")
LEASE, RETENTION = 10.0, 50.0
KEYS = st.sampled_from(["a", "b", "c"])
REQUESTS = st.sampled_from([1, 2])
WHO = st.integers(0, 2)
VALUES = st.sampled_from([None, 0, "x", [1, {"y": None}]])


class Known(NamedTuple):
    """What the model believes of a key."""

    request: int
    turns: int
    held_by: EntryLease | None = None
    """The last turn, while it has not ended."""
    until: float = 0.0
    ended: float | None = None
    answer: Done | Failed | None = None


class LedgerMachine(RuleBasedStateMachine):
    turns = Bundle("turns")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = VirtualClock()
        first = Ledger.connect(
            "memory://",
            clock=self.clock,
            owner="0",
            lease_seconds=LEASE,
            retention_seconds=RETENTION,
        )
        self.done(first.open())
        store = first.calls.loops.store
        self.ledgers = [first] + [
            Ledger(
                store,
                clock=self.clock,
                owner=str(n),
                lease_seconds=LEASE,
                retention_seconds=RETENTION,
            )
            for n in (1, 2)
        ]
        for ledger in self.ledgers:
            ledger.calls._prune_at = float("inf")  # only when the model prunes too
        self.model: dict[str, Known] = {}
        self.fences: dict[str, int] = {}

    def done(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        self.done(self.ledgers[0].close())
        self.runner.close()

    # -- what the model says -----------------------------------------------------------------------

    def expected(self, key: str, request: int) -> type[HoldfastError] | Done | Failed | int:
        """The refusal, the answer, or the number of the turn."""
        known = self.model.get(key)
        if known is None:
            return 1
        if known.request != request:
            return IdempotencyConflict
        if known.answer is not None:
            return known.answer
        if known.held_by is not None and known.until > self.clock.now():
            return InProgress
        return known.turns + 1

    def took(self, key: str, request: int, turn: EntryLease) -> None:
        assert turn.fence > self.fences.get(key, 0), "fences rise, even over pruned entries"
        self.fences[key] = turn.fence
        self.model[key] = Known(request, turn.attempt, turn, self.clock.now() + LEASE)

    def ended(self, turn: EntryLease, answer: Done | Failed | None) -> bool:
        """Whether this turn may end so."""
        key = turn.entry_key.key
        known = self.model.get(key)
        if known is None or known.held_by != turn:
            return False
        self.model[key] = known._replace(held_by=None, ended=self.clock.now(), answer=answer)
        return True

    # -- verbs -------------------------------------------------------------------------------------

    @rule(target=turns, who=WHO, key=KEYS, request=REQUESTS)
    def begin(self, who: int, key: str, request: int) -> Any:
        expected = self.expected(key, request)
        found: EntryLease | Answered | HoldfastError
        try:
            found = self.done(self.ledgers[who].begin("s", "o", key, request))
        except HoldfastError as error:
            found = error
        if isinstance(expected, type):
            assert type(found) is expected
        elif isinstance(expected, int):
            assert isinstance(found, EntryLease)
            assert found.attempt == expected
            known = self.model.get(key)
            held = known.held_by if known is not None else None
            assert found.taken_over_from == (held.owner if held is not None else None)
            self.took(key, request, found)
            return found
        else:
            assert isinstance(found, Answered)
            assert found.outcome == expected
        return multiple()

    @rule(who=WHO, turn=turns, value=VALUES)
    def finish(self, who: int, turn: EntryLease, value: Any) -> None:
        self.end(turn, rules.done(value), self.ledgers[who].finish(turn, value))

    @rule(who=WHO, turn=turns)
    def fail(self, who: int, turn: EntryLease) -> None:
        failed = Failed("ValueError", "bad")
        self.end(turn, failed, self.ledgers[who].fail(turn, ValueError("bad")))

    @rule(who=WHO, turn=consumes(turns))
    def abandon(self, who: int, turn: EntryLease) -> None:
        self.end(turn, None, self.ledgers[who].abandon(turn))

    def end(
        self, turn: EntryLease, answer: Done | Failed | None, ending: Coroutine[Any, Any, None]
    ) -> None:
        known = self.model.get(turn.entry_key.key)
        # Said again: the very same end of the latest turn.
        echo = (
            known is not None
            and known.held_by is None
            and self.fences[turn.entry_key.key] == turn.fence
            and known.answer == answer
        )
        may = self.ended(turn, answer)
        try:
            self.done(ending)
        except LeaseLost:
            assert not may
            assert not echo
        else:
            assert may or echo

    @rule(who=WHO, turn=turns)
    def extend(self, who: int, turn: EntryLease) -> None:
        key = turn.entry_key.key
        known = self.model.get(key)
        try:
            self.done(self.ledgers[who].extend(turn))
        except LeaseLost:
            assert known is None or known.held_by != turn
        else:
            assert known is not None
            assert known.held_by == turn
            self.model[key] = known._replace(until=self.clock.now() + LEASE)

    @rule(who=WHO, key=KEYS, request=REQUESTS, value=VALUES)
    def run(self, who: int, key: str, request: int, value: Any) -> None:
        expected = self.expected(key, request)
        ran: list[EntryLease] = []

        async def effect(turn: EntryLease) -> Any:
            ran.append(turn)
            self.took(key, request, turn)
            if value == 0:
                raise ValueError("bad")
            self.ended(turn, rules.done(value))
            return value

        found: Any
        try:
            found = self.done(
                self.ledgers[who].run("s", "o", key, request, effect, on_error=OnError.KEEP)
            )
        except ValueError:
            self.ended(ran[0], Failed("ValueError", "bad"))
            found = ValueError
        except HoldfastError as error:
            found = type(error)
        match expected:
            case Failed():
                assert found is EffectFailed
            case Done():
                assert found == rules.answer(expected)
            case int():
                assert found == (ValueError if value == 0 else value)
            case _:
                assert found is expected
        assert len(ran) == isinstance(expected, int)

    @rule(seconds=st.sampled_from([0.5, LEASE / 2, LEASE, RETENTION]))
    def wait(self, seconds: float) -> None:
        self.clock.set(self.clock.now() + seconds)

    @precondition(lambda self: self.model)
    @rule(who=WHO)
    def prune(self, who: int) -> None:
        def is_over(known: Known) -> bool:
            end = known.until if known.ended is None else known.ended
            return end + RETENTION <= self.clock.now()

        gone = [key for key, known in self.model.items() if is_over(known)]
        assert self.done(self.ledgers[who].prune()) == len(gone)
        for key in gone:
            del self.model[key]

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        for key in ("a", "b", "c"):
            entry = self.done(self.ledgers[0].get("s", "o", key))
            known = self.model.get(key)
            if known is None:
                assert entry is None
                continue
            assert entry is not None
            match known:
                case Known(answer=Done()):
                    state = State.DONE
                case Known(answer=Failed()):
                    state = State.FAILED
                case Known(held_by=None):
                    state = State.ABANDONED
                case _:
                    state = State.IN_PROGRESS
            assert (entry.state, entry.attempt) == (state, known.turns)


LedgerMachine.TestCase.settings = settings(
    max_examples=int(os.environ.get("LEDGER_EXAMPLES", "40")),
    stateful_step_count=40,
)
TestLedgerMachine = LedgerMachine.TestCase
