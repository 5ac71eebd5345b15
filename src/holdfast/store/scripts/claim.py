"""Claims of the general path: tasks under limits, and the share of the aged.

The common claim is one statement of the dialect (`claim_plain`); what needs a limit's row comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core import decide, limit as rules
from holdfast.core.task import Task
from holdfast.store.claims import Claim, Claimed
from holdfast.store.script import Script, call
from holdfast.store.scripts import limits as limit_scripts
from holdfast.store.scripts.work import Recorder, Work

BRIEF_MILLISECONDS: Final = "200"
"""A limit is held by transactions of ours only, until their commit is on the disk."""


def claim_these(
    candidates: Sequence[Task],
    claim: Claim,
    *,
    now: float,
    batch: int,
    recorder: Recorder,
    wait: bool = False,
    brief: bool = False,
) -> Script[Claimed]:
    """Takes tasks that are locked and queued, as far as their limits allow; parks the others. Without `wait`,
    those whose limit another transaction holds, or is new, stay where they are. A `brief` wait that is not
    over when a transaction of ours would be fails the whole."""
    if brief:
        yield call("wait_briefly", milliseconds=BRIEF_MILLISECONDS)
    work = Work(now)
    work.load(candidates)
    limits = yield from limit_scripts.lock_of(candidates, wait=wait)
    judged, held = list[Task](), list[Task]()
    for task in candidates:
        (judged if limits.keys() >= set(task.limit_names) else held).append(task)
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
    yield from work.save(recorder, batch)
    openings = [rules.next_look(limit, now) for limit in limits.values()]
    return Claimed(
        taken,
        opens_at=min((at for at in openings if at is not None), default=None),
        parked=len(judged) - len(taken),
        look_again=turns.let_in > 0,
        held_types=tuple(sorted({task.type for task in held})),
    )


def claim_limited(
    ids: Sequence[str],
    claim: Claim,
    *,
    now: float,
    batch: int,
    recorder: Recorder,
    wait: bool = False,
) -> Script[Claimed]:
    """Takes from tasks that were seen in the ready index; waits for their limits briefly, or not at all."""
    found = yield call("lock_queued", ids=sorted(ids))
    return (
        yield from claim_these(
            found, claim, now=now, batch=batch, recorder=recorder, wait=wait, brief=wait
        )
    )


def open_gates(*, now: float, batch: int, recorder: Recorder) -> Script[tuple[int, float | None]]:
    """Lets in what rates allow again; says how many, and when the next opening is."""
    due = yield call("open_limits", now=now, limit=100)
    opened = 0
    if due:
        work = Work(now)
        limits = yield from limit_scripts.lock((row[0] for row in due), wait=False)
        opened = yield from limit_scripts.let_in(work, limits)
        yield from limit_scripts.save(limits, now)
        yield from work.save(recorder, batch)
    rows = yield call("next_open")
    return opened, rows[0][0] if rows else None
