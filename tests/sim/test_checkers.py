"""Every law can be broken: each checker reports a good outcome that was altered to break its law."""

from __future__ import annotations

import copy
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.event import Event
from holdfast.core.task import Failure, FailureKind, Status
from holdfast.sim.campaign import Options
from holdfast.sim.checkers import CHECKERS, judge
from holdfast.sim.handler_outcomes import NIGHTLY
from holdfast.sim.order_history import Placed
from holdfast.sim.outcome import Outcome
from holdfast.sim.record import Granted, HolderInterval, Wait
from holdfast.sim.server import PRUNED, Change, Left
from holdfast.sim.world import World

CALM = Options(
    hours=0.05,
    faults=("slow",),
    changes=(("traders", "files"), ("lock_servers", "3"), ("holders", "2"), ("act_seconds", "3")),
)
Tamper = Callable[[Outcome], Outcome]


@pytest.fixture(scope="module")
def good() -> Outcome:
    return World(CALM.plan(5)).run()


def changed(outcome: Outcome, matches: Callable[[Change], bool], **fields: Any) -> Outcome:
    """Replaces fields of the first matching row change."""
    n = next(n for n, change in enumerate(outcome.history) if matches(change))
    history = list(outcome.history)
    history[n] = history[n]._replace(**fields)
    return replace(outcome, history=history)


def claimed(change: Change) -> bool:
    return change.was == "queued" and change.status == "running"


def without_an_event(outcome: Outcome) -> Outcome:
    ends = [event for event in outcome.events if event.kind == "task.completed"]
    return replace(outcome, events=[event for event in outcome.events if event is not ends[-1]])


def with_a_silent_death(outcome: Outcome) -> Outcome:
    task = next(iter(outcome.tasks.values()))
    dead = replace(task, status=Status.FAILED, failure_json=None)
    return replace(outcome, tasks={**outcome.tasks, task.id: dead})


def with_a_queue_jumper(outcome: Outcome) -> Outcome:
    """Of two ready tasks, the less urgent one was claimed. The other one was pruned later."""
    first = next(change for change in outcome.history if claimed(change))
    ahead = first._replace(id="ahead", was=None, status="queued", started_at=None)
    ahead = ahead._replace(transaction=-1, due_at=first.due_at - 1.0, gate=None)
    return replace(outcome, history=[ahead, *outcome.history])


def with_a_starving_task(outcome: Outcome) -> Outcome:
    first = outcome.history[0]
    waiting = first._replace(id="low", was=None, status="queued", transaction=-1, gate=None)
    waiting = waiting._replace(limits=None, due_at=0.0, type="quick")
    started = [change for change in outcome.history if claimed(change)]
    later = [
        started[0]._replace(id=f"other {n}", transaction=10**6 + n, started_at=1e10)
        for n in range(2000)
    ]
    return replace(outcome, history=[waiting, *outcome.history, *later])


def tampered(outcome: Outcome, work: Callable[[Outcome], object]) -> Outcome:
    work(outcome)
    return outcome


def two_quorum_holders(outcome: Outcome) -> None:
    outcome.record.quorum_holders += [
        HolderInterval("report", "a", "e0#9", outcome.seconds - 5),
        HolderInterval("report", "b", "e1#9", outcome.seconds - 4),
    ]
    outcome.record.granted += [
        Granted(server, "report", "a", outcome.seconds - 5) for server in ("k0", "k1")
    ]


def a_fill_too_many(outcome: Outcome) -> None:
    history = outcome.record.order_histories[0]
    history.final[0] = replace(history.final[0], filled_qty=history.final[0].qty + Decimal(1))


def a_lost_order(outcome: Outcome) -> None:
    history = outcome.record.order_histories[0]
    history.final.remove(
        next(o for o in history.final if o.client_order_id in history.acknowledged)
    )


def placed_while_frozen(outcome: Outcome) -> None:
    history = outcome.record.order_histories[0]
    history.frozen[99] = 10.0
    history.placed.append(Placed("late", "hf-late", 98, 11.0))


def recorded(name: str) -> Tamper:
    """Adds an entry to one list of the record."""
    return lambda o: tampered(o, lambda o: getattr(o.record, name).append("something"))


def with_a_released_run(outcome: Outcome) -> Outcome:
    """The release says that the answer to the claim was lost, but the handler had started."""
    claim = next(change for change in outcome.history if claimed(change))
    back = claim._replace(was="running", status="queued", attempts=claim.attempts - 1)
    back = back._replace(transaction=10**9, before_fence=claim.fence, fence=claim.fence + 1)
    back = back._replace(before_version=claim.version, version=claim.version + 1)
    event = released(outcome, back)
    others = [event for event in outcome.events if event.task_id != claim.id]
    return replace(outcome, history=[claim, back], events=[*others, event])


def released(outcome: Outcome, back: Change) -> Event:
    """The event of a change that gave a task back because the answer to its claim was lost."""
    return replace(
        outcome.events[0],
        kind="task.released",
        task_id=back.id,
        version=back.version,
        data={"reason": "unknown"},
    )


def with_other_rules(outcome: Outcome) -> Outcome:
    task = next(task for task in outcome.tasks.values() if task.type == NIGHTLY)
    return replace(outcome, tasks={**outcome.tasks, task.id: replace(task, max_attempts=3)})


def with_a_key_used_twice(outcome: Outcome) -> Outcome:
    first = next(change for change in outcome.history if claimed(change))
    both = [
        first._replace(id=name, type="keyed", limits="keyed/ada", transaction=10**9)
        for name in ("one", "two")
    ]
    return replace(outcome, history=both)


def with_a_blocked_child(outcome: Outcome) -> Outcome:
    """Its parent has just ended."""
    child = outcome.history[-1]._replace(
        id="child", was=None, status="blocked", transaction=10**9, type="quick"
    )
    parent = child._replace(id="parent", was="running", status="completed")
    return replace(outcome, history=[child, parent], edges=[("child", "parent")], left=[])


def with_a_failed_child_of_a_completed_parent(outcome: Outcome) -> Outcome:
    """The parent named as its cause has completed."""
    parent = next(t for t in outcome.tasks.values() if t.status is Status.COMPLETED)
    failure = Failure(FailureKind.DEPENDENCY, "its parent failed", cause=parent.id)
    failure_json = msgspec.json.encode(failure).decode()
    child = replace(parent, id="child", status=Status.FAILED, failure_json=failure_json)
    return replace(outcome, tasks={**outcome.tasks, "child": child})


TAMPERS: dict[str, Tamper] = {
    "dependents are settled with their parent": with_a_blocked_child,
    "a task that failed with a parent has a dead one": with_a_failed_child_of_a_completed_parent,
    "no worker idles beside a task that may run": recorded("idle"),
    "a task does not run beside itself": recorded("overlaps"),
    "a runner that renews keeps its tasks": recorded("false_deaths"),
    "no loop of an engine dies": recorded("loop_errors"),
    "no node is behind the store's time": recorded("clock_lags"),
    "a stop leaves nothing behind": recorded("left_behind"),
    "the store's time goes on": recorded("stopped_clocks"),
    "memory stays bounded": recorded("oversized"),
    "what runs is not given back": with_a_released_run,
    "a task has the rules of its type": with_other_rules,
    "limits are exact": with_a_key_used_twice,
    "only what has ended is pruned": lambda o: changed(
        o, lambda c: c.was == "running", was="running", status=PRUNED
    ),
    "the feed adds up to the rows": without_an_event,
    "nothing starts before its time": lambda o: changed(o, claimed, started_at=1.0),
    "the most urgent starts first": with_a_queue_jumper,
    "no task starves": with_a_starving_task,
    "attempts count what failed": lambda o: changed(
        o, lambda c: (c.was, c.status) == ("running", "queued"), attempts=40
    ),
    "budgets of attempts and deaths hold": lambda o: changed(o, claimed, attempts=40),
    "dead letters have their evidence": with_a_silent_death,
    "a free lock is granted": lambda o: tampered(
        o,
        lambda o: o.record.waits.append(
            Wait("attic", "l0#1", o.healed_at + 30.0, o.healed_at + 60.0)
        ),
    ),
    "a quorum has one holder": lambda o: tampered(o, two_quorum_holders),
    "a key has one answer": lambda o: tampered(
        o, lambda o: o.record.answers.update({"pay bill-1": {"1", "2"}})
    ),
    "acknowledged orders survive": lambda o: tampered(o, a_lost_order),
    "a restart finds the orders": lambda o: tampered(
        o, lambda o: o.record.order_histories[0].lost.append("other orders")
    ),
    "an order acts once": lambda o: tampered(
        o, lambda o: o.record.order_histories[0].acted.append(o.record.order_histories[0].acted[0])
    ),
    "both books agree": lambda o: tampered(o, a_fill_too_many),
    "a freeze is final for its epoch": lambda o: tampered(o, placed_while_frozen),
}


def test_a_good_run_breaks_no_law(good: Outcome) -> None:
    assert judge(good) == {}


@pytest.mark.parametrize("law", TAMPERS)
def test_a_broken_law_is_reported(good: Outcome, law: str) -> None:
    record = copy.copy(good.record)
    for name, value in vars(good.record).items():
        setattr(record, name, copy.copy(value))
    record.order_histories = [copy.copy(history) for history in good.record.order_histories]
    for history in record.order_histories:
        for name, value in vars(history).items():
            setattr(history, name, copy.copy(value))
    assert list(CHECKERS[law](TAMPERS[law](replace(good, record=record))))


def test_a_child_may_be_blocked_while_the_cascade_of_its_parent_is_unfinished(
    good: Outcome,
) -> None:
    """But not without end."""
    law = CHECKERS["dependents are settled with their parent"]
    cut = with_a_blocked_child(good)
    left = Left(10**9, 1.0, "w0", frozenset({"parent"}))
    ended = left._replace(transaction=10**9 + 1, parents=frozenset())
    settled = cut.history[0]._replace(was="blocked", status="queued", transaction=10**9 + 1)
    assert not list(law(replace(cut, left=[left, ended], history=[*cut.history, settled])))
    assert list(law(replace(cut, left=[left])))
    other = settled._replace(id="other", was=None)
    assert list(law(replace(cut, left=[left, ended], history=[*cut.history, other])))


def test_an_aged_task_may_start_beside_others_and_before_more_urgent_ones(good: Outcome) -> None:
    """A gateway joins the claims of several workers in one transaction."""
    law = CHECKERS["the most urgent starts first"]
    row = next(change for change in good.history if claimed(change))._replace(
        gate=None, limits=None
    )
    due = {"old": 0.0, "first": 1_000.0, "second": 1_001.0, "low": 1_000.0}
    priority = {"old": 3, "first": 2, "second": 2, "low": 3}
    queued = [
        row._replace(
            id=name,
            was=None,
            status="queued",
            due_at=due_at,
            priority=priority[name],
            transaction=n,
        )
        for n, (name, due_at) in enumerate(due.items())
    ]

    def started(*names: str) -> Outcome:
        claims = [
            row._replace(id=name, started_at=1_002.0, due_at=due[name], transaction=9)
            for name in names
        ]
        return replace(good, history=[*queued, *claims])

    assert not list(law(started("old", "first")))
    assert list(law(started("old", "second")))
    assert list(law(started("old", "low")))


def test_a_turn_may_start_a_later_task_of_a_fair_type(good: Outcome) -> None:
    """Its key takes the place of the first task of the type, before tasks of other types. The tasks were
    pruned before the end of the run: each change has what the law needs to know of them."""
    law = CHECKERS["the most urgent starts first"]
    due = {"first": ("keyed", 1_000.0), "other": ("quick", 1_001.0), "turn": ("keyed", 1_002.0)}
    row = next(change for change in good.history if claimed(change))._replace(
        gate=None, limits=None
    )
    queued = [
        row._replace(
            id=name, type=kind, was=None, status="queued", due_at=due_at, transaction=number
        )
        for number, (name, (kind, due_at)) in enumerate(due.items())
    ]

    def started(*names: str) -> Outcome:
        claims = [
            row._replace(
                id=name, type=due[name][0], started_at=1_003.0, due_at=due[name][1], transaction=9
            )
            for name in names
        ]
        return replace(good, tasks={}, history=[*queued, *claims])

    assert not list(law(started("turn")))
    assert not list(law(started("turn", "other")))
    assert list(law(started("other")))


def test_a_resume_of_a_stuck_task_is_not_taken_for_a_later_release(good: Outcome) -> None:
    """An operator takes a stuck run from its runner. The answer to the next claim is lost, and the task is
    given back: no handler had started under that fence."""
    law = CHECKERS["what runs is not given back"]
    whole = with_a_released_run(good)
    first, taken = whole.history
    assert list(law(whole))
    second = first._replace(
        fence=first.fence + 2, version=first.version + 2, before_version=first.version + 1
    )
    back = taken._replace(
        transaction=10**9 + 1,
        before_fence=second.fence,
        fence=second.fence + 1,
        before_version=second.version,
        version=second.version + 1,
    )
    resumed = replace(
        whole.events[-1], kind="task.resumed", data={"actor": "user:ann", "reason": "go on"}
    )
    events = [*whole.events[:-1], resumed, released(good, back)]
    history = [first, taken._replace(was="stuck"), second, back]
    assert not list(law(replace(whole, history=history, events=events)))
