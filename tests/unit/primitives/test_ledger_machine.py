"""The ledger against a model without fences, SQL or scripts.

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


class ModelEntry(NamedTuple):
    """The expected state of a key."""

    request: int
    attempts: int
    held_by: EntryLease | None = None
    """The latest lease, until it has ended."""
    until: float = 0.0
    ended: float | None = None
    answer: Done | Failed | None = None


class LedgerMachine(RuleBasedStateMachine):
    leases = Bundle("leases")

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
        self.model: dict[str, ModelEntry] = {}
        self.fences: dict[str, int] = {}

    def done(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        self.done(self.ledgers[0].close())
        self.runner.close()

    # -- the model -----------------------------------------------------------------------

    def expected(self, key: str, request: int) -> type[HoldfastError] | Done | Failed | int:
        """The refusal, the answer, or the number of the attempt."""
        model_entry = self.model.get(key)
        if model_entry is None:
            return 1
        if model_entry.request != request:
            return IdempotencyConflict
        if model_entry.answer is not None:
            return model_entry.answer
        if model_entry.held_by is not None and model_entry.until > self.clock.now():
            return InProgress
        return model_entry.attempts + 1

    def took(self, key: str, request: int, lease: EntryLease) -> None:
        assert lease.fence > self.fences.get(key, 0), "fences rise, even over pruned entries"
        self.fences[key] = lease.fence
        self.model[key] = ModelEntry(request, lease.attempt, lease, self.clock.now() + LEASE)

    def ended(self, lease: EntryLease, answer: Done | Failed | None) -> bool:
        """Whether this lease may record that end."""
        key = lease.entry_key.key
        model_entry = self.model.get(key)
        if model_entry is None or model_entry.held_by != lease:
            return False
        self.model[key] = model_entry._replace(held_by=None, ended=self.clock.now(), answer=answer)
        return True

    # -- rules -------------------------------------------------------------------------------------

    @rule(target=leases, who=WHO, key=KEYS, request=REQUESTS)
    def begin(self, who: int, key: str, request: int) -> Any:
        expected = self.expected(key, request)
        actual: EntryLease | Answered | HoldfastError
        try:
            actual = self.done(self.ledgers[who].begin("s", "o", key, request))
        except HoldfastError as error:
            actual = error
        if isinstance(expected, type):
            assert type(actual) is expected
        elif isinstance(expected, int):
            assert isinstance(actual, EntryLease)
            assert actual.attempt == expected
            model_entry = self.model.get(key)
            held = model_entry.held_by if model_entry is not None else None
            assert actual.taken_over_from == (held.owner if held is not None else None)
            self.took(key, request, actual)
            return actual
        else:
            assert isinstance(actual, Answered)
            assert actual.outcome == expected
        return multiple()

    @rule(who=WHO, lease=leases, value=VALUES)
    def finish(self, who: int, lease: EntryLease, value: Any) -> None:
        self.end(lease, rules.done(value), self.ledgers[who].finish(lease, value))

    @rule(who=WHO, lease=leases)
    def fail(self, who: int, lease: EntryLease) -> None:
        failed = Failed("ValueError", "bad")
        self.end(lease, failed, self.ledgers[who].fail(lease, ValueError("bad")))

    @rule(who=WHO, lease=consumes(leases))
    def abandon(self, who: int, lease: EntryLease) -> None:
        self.end(lease, None, self.ledgers[who].abandon(lease))

    def end(
        self, lease: EntryLease, answer: Done | Failed | None, ending: Coroutine[Any, Any, None]
    ) -> None:
        model_entry = self.model.get(lease.entry_key.key)
        # A repeat of the end of the latest lease.
        echo = (
            model_entry is not None
            and model_entry.held_by is None
            and self.fences[lease.entry_key.key] == lease.fence
            and model_entry.answer == answer
        )
        may = self.ended(lease, answer)
        try:
            self.done(ending)
        except LeaseLost:
            assert not may
            assert not echo
        else:
            assert may or echo

    @rule(who=WHO, lease=leases)
    def extend(self, who: int, lease: EntryLease) -> None:
        key = lease.entry_key.key
        model_entry = self.model.get(key)
        try:
            self.done(self.ledgers[who].extend(lease))
        except LeaseLost:
            assert model_entry is None or model_entry.held_by != lease
        else:
            assert model_entry is not None
            assert model_entry.held_by == lease
            self.model[key] = model_entry._replace(until=self.clock.now() + LEASE)

    @rule(who=WHO, key=KEYS, request=REQUESTS, value=VALUES)
    def run(self, who: int, key: str, request: int, value: Any) -> None:
        expected = self.expected(key, request)
        ran: list[EntryLease] = []

        async def effect(lease: EntryLease) -> Any:
            ran.append(lease)
            self.took(key, request, lease)
            if value == 0:
                raise ValueError("bad")
            self.ended(lease, rules.done(value))
            return value

        actual: Any
        try:
            actual = self.done(
                self.ledgers[who].run("s", "o", key, request, effect, on_error=OnError.KEEP)
            )
        except ValueError:
            self.ended(ran[0], Failed("ValueError", "bad"))
            actual = ValueError
        except HoldfastError as error:
            actual = type(error)
        match expected:
            case Failed():
                assert actual is EffectFailed
            case Done():
                assert actual == rules.answer(expected)
            case int():
                assert actual == (ValueError if value == 0 else value)
            case _:
                assert actual is expected
        assert len(ran) == isinstance(expected, int)

    @rule(seconds=st.sampled_from([0.5, LEASE / 2, LEASE, RETENTION]))
    def wait(self, seconds: float) -> None:
        self.clock.set(self.clock.now() + seconds)

    @precondition(lambda self: self.model)
    @rule(who=WHO)
    def prune(self, who: int) -> None:
        def is_over(model_entry: ModelEntry) -> bool:
            end = model_entry.until if model_entry.ended is None else model_entry.ended
            return end + RETENTION <= self.clock.now()

        gone = [key for key, model_entry in self.model.items() if is_over(model_entry)]
        assert self.done(self.ledgers[who].prune()) == len(gone)
        for key in gone:
            del self.model[key]

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        for key in ("a", "b", "c"):
            entry = self.done(self.ledgers[0].get("s", "o", key))
            model_entry = self.model.get(key)
            if model_entry is None:
                assert entry is None
                continue
            assert entry is not None
            match model_entry:
                case ModelEntry(answer=Done()):
                    state = State.DONE
                case ModelEntry(answer=Failed()):
                    state = State.FAILED
                case ModelEntry(held_by=None):
                    state = State.ABANDONED
                case _:
                    state = State.IN_PROGRESS
            assert (entry.state, entry.attempt) == (state, model_entry.attempts)


LedgerMachine.TestCase.settings = settings(
    max_examples=int(os.environ.get("LEDGER_EXAMPLES", "40")),
    stateful_step_count=40,
)
TestLedgerMachine = LedgerMachine.TestCase
