"""The one path of changes: lock, let the core decide, settle what hangs on it, write, record.

Promises: rows, dependents, limits and facts change together or not at all; dependents beyond a bite are left
for later (`cascade.py`). Never: decides by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from holdfast.core.command import Order, Replay, Report
from holdfast.core.decide import Decision, Refusal, Transition, decide
from holdfast.store.script import Script, call
from holdfast.store.scripts import cascade, limits
from holdfast.store.scripts.revive import on_their_way
from holdfast.store.scripts.work import Recorder, Work, held as held_by_others


class Applied(NamedTuple):
    """What came of a batch of orders."""

    decisions: list[Decision]
    is_cut_short: bool
    """Dependents are left for a sweeper."""


BRIEF_MILLISECONDS: Final = "50"
"""The end of one task waits so long for a lock; others may wait behind it."""
HELD: Final = "held"
"""Code of a refusal: another transaction holds the task at this moment."""


def apply(
    orders: Sequence[Order],
    *,
    now: float,
    batch: int,
    recorder: Recorder,
    wait: bool = True,
    brief: bool = False,
) -> Script[Applied]:
    """Carries out a batch of orders; the answers are in their order. Without `wait`, a task that another
    transaction holds is left as it is, and the answer says so. `brief`: one that is held for longer than a
    transaction of ours takes fails the whole."""
    if brief:
        yield call("wait_briefly", milliseconds=BRIEF_MILLISECONDS)
    work = Work(now)
    ids = sorted({order.task_id for order in orders})
    work.load((yield call(_lock(orders, wait=wait), ids=ids)))
    held = frozenset() if wait else (yield from held_by_others(work, ids))
    coming = yield from on_their_way(work, orders)
    if held or coming:
        decisions = [_answer(work, order, held, coming) for order in orders]
    else:
        decisions = [carry_out(work, order) for order in orders]
    yield from finish(work, batch, recorder)
    return Applied(decisions, work.is_cut_short)


def _lock(orders: Sequence[Order], *, wait: bool) -> str:
    """A report takes no task away from its runner, so it may pass a step whose transaction is open."""
    if not wait:
        return "lock_free_tasks"
    is_report = all(isinstance(order.command, Report) for order in orders)
    return "lock_reporting" if is_report else "lock_tasks"


def _answer(work: Work, order: Order, held: Collection[str], coming: set[str]) -> Decision:
    if order.task_id in held:
        return held_by_another(order)
    if order.task_id in coming and isinstance(order.command, Replay):
        return _comes_back(order)
    return carry_out(work, order)


def held_by_another(order: Order) -> Refusal:
    """The answer to an order that was not looked at, because of another transaction."""
    text = f"another transaction holds task {order.task_id}: try again in a moment"
    return Refusal(order.task_id, HELD, text)


def _comes_back(order: Order) -> Refusal:
    text = (
        f"task {order.task_id} failed with a task that was replayed: it comes back by itself in a moment, "
        "and waits for that one"
    )
    return Refusal(order.task_id, "illegal-transition", text)


def carry_out(work: Work, order: Order) -> Decision:
    """Lets the core decide about one task of the transaction."""
    task = work.tasks.get(order.task_id)
    if task is None:
        return Refusal(order.task_id, "not-found", f"task {order.task_id} does not exist")
    decision = decide(task, order, work.now)
    if isinstance(decision, Transition):
        work.move(decision)
    else:
        work.mention(decision.facts)
    return decision


def finish(work: Work, batch: int, recorder: Recorder, left: int | None = None) -> Script[None]:
    """Everything that follows from the changes so far, then the write. `left`: how many dependents may
    still be settled in this transaction."""
    left = yield from cascade.settle_dependents(
        work, recorder.cascade_bite if left is None else left
    )
    yield from cascade.revive_dependents(work, left)
    yield from limits.give_back(work)
    yield from work.save(recorder, batch)


def go_on(parent_id: str, *, now: float, batch: int, recorder: Recorder) -> Script[int]:
    """One more bite of a cascade that was left; how much was done."""
    work = Work(now)
    done = yield from cascade.next_bite(work, parent_id, recorder.cascade_bite)
    if done:
        yield from finish(work, batch, recorder, recorder.cascade_bite - done)
    return done
