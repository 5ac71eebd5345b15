"""A decision whose process dies at each statement and at each commit: decided once, resumed once.

A life is: asked (the run ends, its slot is free), answered or lapsed, claimed again, answer read, completed.
A crash before a commit loses the transaction; one after it loses the answer. The survivor repeats its act.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from holdfast.core.decision import Decision, DecisionState
from holdfast.core.task import Status
from holdfast.store.access import Access
from holdfast.store.decisions import Asked, DecisionStore
from holdfast.store.script import Script
from holdfast.store.store import Store
from holdfast.testing import VirtualClock
from tests.conformance.live.test_decisions import QUESTION, choosing, with_deadline
from tests.conformance.tasks.helpers import (
    check_counters,
    claim_one,
    code,
    complete,
    get,
    kinds,
    put,
)

STATEMENTS_MAX: Final = 40
Act = Callable[[DecisionStore], Awaitable[Any]]


class Crash(Exception):
    """The process dies."""


class Crashing(Access):
    """Dies before statement number `at` of its next transaction; after the last one, before the commit."""

    __slots__ = ("at", "has_crashed")

    def __init__(self, of: Access, at: int) -> None:
        super().__init__(of.driver, of.dialect, of.ids)
        self.at = at
        self.has_crashed = False

    async def run(self, make: Any) -> Any:
        return await super().run(lambda *given: self._cut(make(*given)))

    def _cut(self, script: Script[Any]) -> Script[Any]:
        answer: Any = None
        done = 0
        while True:
            try:
                call = script.send(answer)
            except StopIteration as end:
                if done == self.at:
                    self._crash()
                return end.value
            if done == self.at:
                script.close()
                self._crash()
            answer = yield call
            done += 1

    def _crash(self) -> None:
        self.has_crashed = True
        raise Crash


async def act_with_crashes(store: Store, act: Act, unchanged: Callable[[], Awaitable[Any]]) -> Any:
    """Dies at every statement, then after the commit, then repeats the act. Nothing changes before it."""
    before = await unchanged()
    for at in range(STATEMENTS_MAX):
        access = Crashing(store._access, at)
        try:
            first = await act(DecisionStore(access))
        except Crash:
            assert await unchanged() == before, f"statement {at} was kept"
            continue
        assert not access.has_crashed
        assert at > 3, "the act has so few statements that the test says nothing"
        again = await act(store.decisions)  # the answer of the commit was lost
        return first, again
    raise AssertionError("the act never ends")


@pytest.mark.parametrize("ending", ["answer", "lapse"])
async def test_a_decision_survives_a_crash_at_every_statement(
    store: Store, clock: VirtualClock, ending: str
) -> None:
    question = QUESTION if ending == "answer" else with_deadline("no")
    await put(store, "a")
    task = await claim_one(store)

    async def state() -> Any:
        return await get(store, "a"), await kinds(store, "a"), await store.decisions.of_tasks(["a"])

    async def ask(decisions: DecisionStore) -> Any:
        return await decisions.ask("a", task.fence, question)

    asked, repeated = await act_with_crashes(store, ask, state)
    assert isinstance(asked, Asked)
    assert repeated == asked
    assert (await get(store, "a")).status is Status.PAUSED
    decision_id = asked.decision.id

    async def answer(decisions: DecisionStore) -> Any:
        if ending == "lapse":
            return await decisions.lapse(decision_id)
        return await decisions.decide(decision_id, choosing("yes"))

    if ending == "lapse":
        clock.set(clock.now() + 61.0)
    decided, repeated = await act_with_crashes(store, answer, state)
    assert decided.state is DecisionState.DECIDED
    assert repeated in (decided, None), "a lapse that is repeated finds nothing to end"
    assert (await get(store, "a")).status is Status.QUEUED

    again = await claim_one(store)
    assert (again.id, again.fence, again.attempts) == ("a", task.fence + 2, 1)
    kept = await store.decisions.ask("a", again.fence, question)
    assert isinstance(kept, Decision)
    assert kept.choice == ("yes" if ending == "answer" else "no")
    assert code(await complete(store, again)) == "moved"
    events = await kinds(store, "a")
    for kind in ("checkpoint.hitl_required", "decision.decided", "task.completed", "task.paused"):
        assert events.count(kind) == 1, events
    assert events.count("task.started") == 2
    await check_counters(store)
