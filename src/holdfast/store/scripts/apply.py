"""The one path of changes: lock, let the core decide, settle what hangs on it, write, record.

Promises: rows, dependents, limits and facts change together or not at all; dependents beyond a batch are left
for later (`cascade.py`). Never: decides by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from holdfast.core.command import Instruction, Replay, Report
from holdfast.core.decide import Refusal, Ruling, Transition, decide
from holdfast.store.script import Script, call
from holdfast.store.scripts import cascade, limits
from holdfast.store.scripts.revive import on_their_way
from holdfast.store.scripts.work import Recorder, Work, held as held_by_others


class Applied(NamedTuple):
    """What came of a batch of orders."""

    rulings: list[Ruling]
    is_cut_short: bool
    """Dependents are left for a sweeper."""


BRIEF_MILLISECONDS: Final = "50"
"""The end of one task waits so long for a lock; others may wait behind it."""
HELD: Final = "held"
"""Code of a refusal: another transaction holds the task at this moment."""


def apply(
    instructions: Sequence[Instruction],
    *,
    now: float,
    record_id: int,
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
    ids = sorted({instruction.task_id for instruction in instructions})
    work.load((yield call(_lock(instructions, wait=wait), ids=ids)))
    held = frozenset() if wait else (yield from held_by_others(work, ids))
    coming = yield from on_their_way(work, instructions)
    if held or coming:
        rulings = [_answer(work, instruction, held, coming) for instruction in instructions]
    else:
        rulings = [carry_out(work, instruction) for instruction in instructions]
    yield from finish(work, record_id, recorder)
    return Applied(rulings, work.is_cut_short)


def _lock(instructions: Sequence[Instruction], *, wait: bool) -> str:
    """A report takes no task away from its runner, so it may pass a step whose transaction is open."""
    if not wait:
        return "lock_free_tasks"
    is_report = all(isinstance(instruction.command, Report) for instruction in instructions)
    return "lock_reporting" if is_report else "lock_tasks"


def _answer(
    work: Work, instruction: Instruction, held: Collection[str], coming: set[str]
) -> Ruling:
    if instruction.task_id in held:
        return held_by_another(instruction)
    if instruction.task_id in coming and isinstance(instruction.command, Replay):
        return _comes_back(instruction)
    return carry_out(work, instruction)


def held_by_another(instruction: Instruction) -> Refusal:
    """The answer to an order that was not looked at, because of another transaction."""
    text = f"another transaction holds task {instruction.task_id}: try again in a moment"
    return Refusal(instruction.task_id, HELD, text)


def _comes_back(instruction: Instruction) -> Refusal:
    text = (
        f"task {instruction.task_id} failed with a task that was replayed: it comes back by itself in a "
        "moment, "
        "and waits for that one"
    )
    return Refusal(instruction.task_id, "illegal-transition", text)


def carry_out(work: Work, instruction: Instruction) -> Ruling:
    """Lets the core decide about one task of the transaction."""
    task = work.tasks.get(instruction.task_id)
    if task is None:
        return Refusal(
            instruction.task_id, "not-found", f"task {instruction.task_id} does not exist"
        )
    ruling = decide(task, instruction, work.now)
    if isinstance(ruling, Transition):
        work.move(ruling)
    else:
        work.mention(ruling.events)
    return ruling


def finish(work: Work, record_id: int, recorder: Recorder, left: int | None = None) -> Script[None]:
    """Everything that follows from the changes so far, then the write. `left`: how many dependents may
    still be settled in this transaction."""
    left = yield from cascade.settle_dependents(
        work, recorder.cascade_batch if left is None else left
    )
    yield from cascade.revive_dependents(work, left)
    yield from limits.give_back(work)
    yield from work.save(recorder, record_id)


def go_on(parent_id: str, *, now: float, record_id: int, recorder: Recorder) -> Script[int]:
    """One more batch of a cascade that was left; how much was done."""
    work = Work(now)
    done = yield from cascade.next_batch(work, parent_id, recorder.cascade_batch)
    if done:
        yield from finish(work, record_id, recorder, recorder.cascade_batch - done)
    return done
