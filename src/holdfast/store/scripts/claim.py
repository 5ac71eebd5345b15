"""Claims of the general path: tasks under limits, and the share of the aged.

The common claim is one statement of the dialect (`claim_plain`); what needs a limit's row comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from holdfast.core import decide, limit as rules
from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.task import Task
from holdfast.store.script import Script, call
from holdfast.store.scripts import limits as limit_scripts
from holdfast.store.scripts.limits import Limits
from holdfast.store.scripts.work import Recorder, Work

BRIEF_MILLISECONDS: Final = "200"
"""A limit is held by transactions of ours only, until their commit is on the disk."""


class Wait(Enum):
    """For limits that other transactions hold, or that are new."""

    NEVER = "never"
    """Tasks under them stay where they are."""
    IF_NONE_IS_FREE = "if none is free"
    """The same, unless there is no other limit to judge: then briefly."""
    BRIEFLY = "briefly"
    """As long as a transaction of ours takes; a limit that is held for longer fails the whole."""


def claim_these(
    candidates: Sequence[Task],
    claim: ClaimRequest,
    limits: Limits,
    *,
    now: float,
    record_id: int,
    recorder: Recorder,
) -> Script[Claimed]:
    """Takes tasks that are locked and queued, as far as their limits allow; parks the others. Those with a
    limit that is not among the locked ones stay where they are."""
    work = Work(now)
    work.load(candidates)
    kinds = {task.limits: task.limit_names for task in candidates}
    lacking = {kind for kind, names in kinds.items() if not limits.keys() >= set(names)}
    judged = [task for task in candidates if task.limits not in lacking] if lacking else candidates
    turns = yield from limit_scripts.turns_of(work, judged, limits)
    taken = []
    for task in judged:
        full = turns.admit(task)
        if full is not None:
            limit_scripts.park(work, task, full, limits)
            continue
        moved = decide.claim(task, node=claim.node, lease_seconds=claim.lease_seconds, now=now)
        work.move(moved)
        taken.append(moved.after)
    yield from limit_scripts.save(limits, now)
    yield from work.save(recorder, record_id)
    openings = [rules.next_look(limit, now) for limit in limits.values()]
    return Claimed(
        taken,
        opens_at=min((at for at in openings if at is not None), default=None),
        parked=len(judged) - len(taken),
        look_again=turns.let_in > 0,
        held_types=_types(candidates, lacking) if lacking else (),
    )


def _types(tasks: Sequence[Task], lacking: set[str | None]) -> tuple[str, ...]:
    return tuple(sorted({task.type for task in tasks if task.limits in lacking}))


def claim_limited(
    ids: Sequence[str],
    claim: ClaimRequest,
    *,
    now: float,
    record_id: int,
    recorder: Recorder,
    wait: Wait,
) -> Script[Claimed]:
    """Takes from tasks that were seen in the ready index."""
    found = yield call("lock_queued", ids=sorted(ids))
    limits: Limits = {}
    if wait is not Wait.BRIEFLY:
        limits = yield from limit_scripts.lock_of(found, wait=False)
    if found and not limits and wait is not Wait.NEVER:
        limits = yield from lock_briefly(found)
    return (
        yield from claim_these(
            found, claim, limits, now=now, record_id=record_id, recorder=recorder
        )
    )


def lock_briefly(tasks: Sequence[Task]) -> Script[Limits]:
    """All limits of these tasks, or a failure when a transaction of ours would have ended."""
    if any(task.limits for task in tasks):
        yield call("wait_briefly", milliseconds=BRIEF_MILLISECONDS)
    return (yield from limit_scripts.lock_of(tasks, wait=True))


def open_gates(
    *, now: float, record_id: int, recorder: Recorder
) -> Script[tuple[int, float | None]]:
    """Lets in what rates allow again; says how many, and when the next opening is."""
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
