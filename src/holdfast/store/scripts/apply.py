"""Applies instructions to tasks: lock, decide in the core, settle dependents, write rows, record events.

Promises: rows, dependents, limits and events change in one transaction. Dependents beyond one batch are
recorded and settled later (`cascade.py`).
Never: decides a change; every transition comes from `core.decide`. It refuses only what it cannot load: a
task that does not exist, that another transaction holds, or that is being revived.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from holdfast.core.claim_by_id import has_expired
from holdfast.core.command import Expire, Instruction, Report
from holdfast.core.decide import Refusal, Ruling, Transition, decide
from holdfast.core.event import NewEvent
from holdfast.core.transition import HELD
from holdfast.store.beside import Beside, begin
from holdfast.store.script import Script, call
from holdfast.store.scripts import cascade, limits
from holdfast.store.scripts.decision_rows import cancel_left
from holdfast.store.scripts.followers import end_executions
from holdfast.store.scripts.revive import AGAIN, on_their_way
from holdfast.store.scripts.sync_log import log_expired
from holdfast.store.scripts.work import Recorder, Work, held as held_by_others


class Applied(NamedTuple):
    """The result of a batch of instructions."""

    rulings: list[Ruling]
    is_cut_short: bool
    """Whether a sweeper has to settle the remaining dependents."""


BRIEF_MILLISECONDS: Final = "50"
"""Lock timeout for ending one task. It is short, because other requests may queue behind this one."""


def apply(
    instructions: Sequence[Instruction],
    *,
    now: float,
    record_id: int,
    recorder: Recorder,
    wait: bool = True,
    brief: bool = False,
    beside: Beside | None = None,
) -> Script[Applied]:
    """Applies a batch of instructions. The rulings are in the order of the instructions.

    Without `wait`, a task that another transaction holds is skipped and refused with `HELD`. With `brief`, a
    lock that is not granted within `BRIEF_MILLISECONDS` fails the transaction. `beside` writes its rows in
    the same transaction; its outcome is the list of rulings."""
    if brief:
        yield call("wait_briefly", milliseconds=BRIEF_MILLISECONDS)
    if beside is not None:
        yield from begin(beside, now)
    work = Work(now)
    ids = sorted({instruction.task_id for instruction in instructions})
    work.load((yield call(_lock(instructions, wait=wait), ids=ids)))
    held = frozenset() if wait else (yield from held_by_others(work, ids))
    coming = yield from on_their_way(work, instructions)
    if held or coming:
        rulings = [_answer(work, instruction, held, coming) for instruction in instructions]
    else:
        rulings = [carry_out(work, instruction) for instruction in instructions]
    then = None if beside is None else partial(beside.after, rulings)
    yield from finish(work, record_id, recorder, then=then)
    return Applied(rulings, work.is_cut_short)


def _lock(instructions: Sequence[Instruction], *, wait: bool) -> str:
    """The lock statement. A report does not take a task from its runner, so a weaker lock is enough: it does
    not conflict with the open transaction of a step."""
    if not wait:
        return "lock_free_tasks"
    is_report = all(isinstance(instruction.command, Report) for instruction in instructions)
    return "lock_reporting" if is_report else "lock_tasks"


def _answer(
    work: Work, instruction: Instruction, held: Collection[str], coming: set[str]
) -> Ruling:
    if instruction.task_id in held:
        return held_by_another(instruction.task_id)
    if instruction.task_id in coming and isinstance(instruction.command, AGAIN):
        return _comes_back(instruction)
    return carry_out(work, instruction)


def held_by_another(task_id: str) -> Refusal:
    """The refusal of a change that was skipped because another transaction holds the task."""
    text = f"another transaction holds task {task_id}: try again in a moment"
    return Refusal(task_id, HELD, text)


def _comes_back(instruction: Instruction) -> Refusal:
    text = (
        f"task {instruction.task_id} failed with a task that was replayed: it comes back by itself in a "
        "moment, "
        "and waits for that one"
    )
    return Refusal(instruction.task_id, "illegal-transition", text)


def carry_out(work: Work, instruction: Instruction) -> Ruling:
    """Applies one instruction to a loaded task: the core decides, `work` collects the result."""
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


def expire_ended(work: Work, task_ids: Iterable[str]) -> None:
    """Expires the runs of these loaded tasks whose leases have ended. The log of the exchange names them."""
    for task_id in task_ids:
        task = work.tasks[task_id]
        if has_expired(task, work.now):
            work.expired.append(carry_out(work, Instruction(task.id, Expire(), task.fence)))


def finish(
    work: Work,
    record_id: int,
    recorder: Recorder,
    left: int | None = None,
    *,
    then: Callable[[float], Script[Sequence[NewEvent]]] | None = None,
) -> Script[None]:
    """Settles dependents, releases limits, cancels decisions that no task waits for, then writes everything.
    `left`: how many edges to dependents this transaction may still read; by default a whole batch. `then`
    writes rows beside the tasks, and returns events for the same record."""
    left = yield from cascade.settle_dependents(
        work, recorder.cascade_batch if left is None else left
    )
    yield from cascade.revive_dependents(work, left)
    yield from limits.give_back(work)
    yield from cancel_left(work)
    yield from log_expired(work.expired, work.now)
    yield from end_executions(work)
    if then is not None:
        work.mention((yield from then(work.now)))
    yield from work.save(recorder, record_id)


def go_on(parent_id: str, *, now: float, record_id: int, recorder: Recorder) -> Script[int]:
    """Runs the next batch of an unfinished cascade. Returns how much was done; 0: nothing could be."""
    work = Work(now)
    done = yield from cascade.next_batch(work, parent_id, recorder.cascade_batch)
    if done:
        yield from finish(work, record_id, recorder, recorder.cascade_batch - done)
    return done
