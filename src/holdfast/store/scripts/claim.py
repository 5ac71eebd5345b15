"""The general claim path: tasks with limits, tasks of fair types, and aged tasks.

Other tasks are claimed by the dialect's fast path (`store/fast`). Tasks whose limits have to be locked and
checked, and tasks whose keys take turns, are claimed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec.structs import replace

from holdfast.core import decide, limit as rules
from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.task import Task
from holdfast.store.port import Aside
from holdfast.store.script import Script, call
from holdfast.store.scripts import limits as limit_scripts, turns
from holdfast.store.scripts.limits import Limits
from holdfast.store.scripts.work import Recorder, Work


class Wait(Enum):
    """Whether a claim waits for limits and turns that other transactions hold, or that do not exist yet."""

    NEVER = "never"
    """Skip tasks with such limits; they stay queued."""
    IF_NONE_IS_FREE = "if none is free"
    """As NEVER, unless no limit at all could be locked; then as BRIEFLY."""
    BRIEFLY = "briefly"
    """Wait up to `turns.BRIEF_MILLISECONDS`; a limit that is held for longer fails the transaction."""


def claim_these(
    candidates: Sequence[Task],
    claim: ClaimRequest,
    limits: Limits,
    *,
    now: float,
    record_id: int,
    recorder: Recorder,
) -> Script[Claimed]:
    """Claims locked, queued tasks as far as their limits allow and parks the others. Tasks with a limit that
    is not in `limits` stay queued."""
    work = Work(now)
    work.load(candidates)
    kinds = {task.limits: task.limit_names for task in candidates}
    lacking = {kind for kind, names in kinds.items() if not limits.keys() >= set(names)}
    judged = [task for task in candidates if task.limits not in lacking] if lacking else candidates
    admission = yield from limit_scripts.admission_of(work, judged, limits)
    taken = []
    for task in judged:
        full = admission.admit(task)
        if full is not None:
            limit_scripts.park(work, task, full, limits)
            continue
        moved = decide.claim(
            task,
            node=claim.node,
            lease_seconds=claim.lease_seconds,
            now=now,
            claim_id=claim.claim_id,
        )
        work.move(moved)
        taken.append(moved.after)
    yield from limit_scripts.save(limits, now)
    yield from work.save(recorder, record_id)
    openings = [rules.next_look(limit, now) for limit in limits.values()]
    return Claimed(
        taken,
        opens_at=min((at for at in openings if at is not None), default=None),
        parked=len(judged) - len(taken),
        look_again=admission.let_in > 0,
        held_types=_types(candidates, lacking) if lacking else (),
    )


def _types(tasks: Sequence[Task], lacking: set[str | None]) -> tuple[str, ...]:
    return tuple(sorted({task.type for task in tasks if task.limits in lacking}))


def claim_aside(
    aside: Aside,
    claim: ClaimRequest,
    *,
    now: float,
    record_id: int,
    recorder: Recorder,
    wait: Wait,
) -> Script[Claimed]:
    """Claims what a scan of the ready index has found and left to this path."""
    fair_ids, held_types = list[str](), frozenset[str]()
    if aside.fair:
        fair_ids, held_types = yield from _take_turns(aside.fair, now, wait)
    tasks: list[Task] = yield call("lock_queued", ids=sorted(aside.limited + fair_ids))
    if fair_ids:
        tasks = turns.in_order(tasks, fair_ids)
    limits: Limits = {}
    if wait is not Wait.BRIEFLY:
        limits = yield from limit_scripts.lock_of(tasks, wait=False)
    if tasks and not limits and wait is not Wait.NEVER:
        limits = yield from lock_briefly(tasks)
    claimed = yield from claim_these(
        tasks, claim, limits, now=now, record_id=record_id, recorder=recorder
    )
    if held_types:
        claimed = replace(claimed, held_types=tuple(sorted(held_types.union(claimed.held_types))))
    return claimed


def _take_turns(
    candidates: list[str], now: float, wait: Wait
) -> Script[tuple[list[str], frozenset[str]]]:
    """The ids of the tasks of fair types that start in the place of these, and the types whose turn another
    transaction holds."""
    slots = yield from turns.read_slots(candidates)
    held: turns.Turns = {}
    if wait is not Wait.BRIEFLY:
        held = yield from turns.lock(slots, now, wait=False)
    if not held and wait is not Wait.NEVER:
        yield call("wait_briefly", milliseconds=turns.BRIEF_MILLISECONDS)
        held = yield from turns.lock(slots, now)
    ids = yield from turns.chosen(slots, held, now)
    return ids, frozenset(lane.type for lane in slots if lane not in held)


def lock_briefly(tasks: Sequence[Task]) -> Script[Limits]:
    """Locks all limits of these tasks, or fails after `turns.BRIEF_MILLISECONDS`."""
    if any(task.limits for task in tasks):
        yield call("wait_briefly", milliseconds=turns.BRIEF_MILLISECONDS)
    return (yield from limit_scripts.lock_of(tasks, wait=True))


def open_gates(
    *, now: float, record_id: int, recorder: Recorder
) -> Script[tuple[int, float | None]]:
    """Unparks tasks whose rate limits allow more starts. Returns how many, and when the next limit opens."""
    due = yield call("open_limits", now=now, limit=100)
    opened = 0
    if due:
        work = Work(now)
        limits = yield from limit_scripts.lock((row[0] for row in due), wait=False)
        opened = yield from limit_scripts.let_in(work, limits)
        yield from limit_scripts.save(limits, now)
        yield from work.save(recorder, record_id)
    rows = yield call("next_open")
    return opened, rows[0][0] if rows else None
