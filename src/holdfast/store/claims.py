"""Claims: the shortcut first, then the general path for tasks with limits and of fair types.

Promises: an answered claim is durable with its events, under a new fence. A claim does not wait for rows that
another transaction holds. Never: runs a task.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from holdfast.core.claiming import HELD_RETRY_SECONDS, Claimed, ClaimRequest
from holdfast.core.task import Priority
from holdfast.errors import StoreUnavailable
from holdfast.store.access import Access
from holdfast.store.fast import claim as fast
from holdfast.store.port import Aside, RowHeld
from holdfast.store.script import Script
from holdfast.store.scripts import claim as scripts
from holdfast.store.scripts.claim import Wait
from holdfast.store.scripts.turns import in_turn


async def claim(access: Access, request: ClaimRequest) -> Claimed:
    """See `Store.claim`."""
    if request.expected == 1 and request.limit == 1:
        return await fast.claim_next(access, request)
    claimed = await _claim(access, request)
    if not claimed.held_types:
        return claimed
    types = tuple(name for name in request.types if name not in claimed.held_types)
    room = request.limit - len(claimed.tasks)
    behind = Claimed([])
    if types and room > 0:
        behind = await _claim(access, replace(request, types=types, limit=room, expected=None))
    return Claimed(
        claimed.tasks + behind.tasks,
        _earliest(claimed.opens_at, behind.opens_at),
        claimed.parked + behind.parked,
        behind.look_again,
        blind_seconds=HELD_RETRY_SECONDS,
    )


async def _claim(access: Access, request: ClaimRequest) -> Claimed:
    claimed, aside = await fast.claim(access, request)
    if not (aside.limited or aside.fair):
        return claimed
    counted = await _claim_counted(access, aside, request)
    return _together(claimed, counted, len(aside.limited) + len(aside.fair))


async def _claim_counted(access: Access, aside: Aside, request: ClaimRequest) -> Claimed:
    """Claims tasks with limits and of fair types. Waits briefly for a held limit or turn: another transaction
    inserts it, finishes a task of it or claims, and each is as short as this claim."""
    try:
        claimed = await _claim_aside(access, aside, request, Wait.IF_NONE_IS_FREE)
    except RowHeld:
        return await _claim_aside(access, aside, request, Wait.NEVER)
    if claimed.held_types:
        with suppress(StoreUnavailable):
            late = await _claim_aside(access, aside, request, Wait.BRIEFLY)
            return _together(replace(claimed, held_types=()), late, len(late.tasks) + late.parked)
    return claimed


async def _claim_aside(access: Access, aside: Aside, request: ClaimRequest, wait: Wait) -> Claimed:
    return await access.write(
        lambda: scripts.claim_aside(
            aside,
            request,
            now=(now := access.now()),
            record_id=access.ids.record(now),
            recorder=access.dialect,
            wait=wait,
        )
    )


async def claim_aged(
    access: Access, request: ClaimRequest, ageing_seconds: float, *, below: Priority
) -> Claimed:
    """See `Store.claim_aged`."""

    def script() -> Script[Claimed]:
        now = access.now()
        aged = yield from access.dialect.pick_aged(
            request, now=now, ageing_seconds=ageing_seconds, below=below
        )
        aged = yield from in_turn(aged, now)
        limits = yield from scripts.lock_briefly(aged)
        return (
            yield from scripts.claim_these(
                aged,
                request,
                limits,
                now=now,
                record_id=access.ids.record(now),
                recorder=access.dialect,
            )
        )

    with suppress(StoreUnavailable):
        return await access.write(script)
    # A limit is held, or the store is unavailable; then the next claim fails as well.
    return Claimed([])


def _together(plain: Claimed, limited: Claimed, candidates: int) -> Claimed:
    """Joins the results of both parts of a claim. `candidates`: how many tasks the first part left to the
    second."""
    tasks = plain.tasks + limited.tasks
    if any(task.fair_key is not None for task in limited.tasks):
        tasks.sort(key=lambda task: task.priority)  # Within a priority, turns are in order already.
    else:
        tasks.sort(key=lambda task: (task.priority, task.due_at))
    others_took = candidates - len(limited.tasks) - limited.parked > 0 and not limited.held_types
    return Claimed(
        tasks,
        _earliest(plain.opens_at, limited.opens_at),
        plain.parked + limited.parked,
        plain.look_again or limited.look_again or others_took,
        plain.blind_seconds,
        limited.held_types,
    )


def _earliest(*moments: float | None) -> float | None:
    return min((at for at in moments if at is not None), default=None)
