"""Shortcuts of `Store.claim`: tasks without limits, of types that are not fair, in one statement on
PostgreSQL.

Promises: a claim whose record id exists already takes no task. If the answer to a claim is lost, the
heartbeat releases the tasks that it took.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.claiming import SMALL, Claimed, ClaimRequest
from holdfast.core.task import Task
from holdfast.store.access import Access
from holdfast.store.port import NONE_ASIDE, Aside, RecordExists
from holdfast.store.script import Script

DRAWS: Final = 3
"""Tries with a new record id: two processes may draw the same id."""


async def claim(access: Access, request: ClaimRequest) -> tuple[Claimed, Aside]:
    """The next tasks in order, and the ids of those that the general path claims."""
    record_id = access.ids.record(access.now())
    is_small = request.expected is not None and request.expected <= SMALL
    try:
        return await access.driver.write_one(
            lambda: access.dialect.fast.claim(request, now=access.now(), record_id=record_id),
            small=is_small,
        )
    except RecordExists:
        return Claimed([], look_again=True), NONE_ASIDE


async def claim_next(access: Access, request: ClaimRequest) -> Claimed:
    """The first task in line, unless it has limits or is of a fair type. Cheaper than `claim` for one."""
    for _ in range(DRAWS):
        try:
            return Claimed(await access.driver.write_one(_next_in_line(access, request)))
        except RecordExists:
            continue
    return Claimed([])


def _next_in_line(access: Access, request: ClaimRequest) -> Callable[[], Script[list[Task]]]:
    """Makes the script, with one record id for all its runs."""
    record_id = access.ids.record(access.now())
    return lambda: access.dialect.fast.claim_next(request, now=access.now(), record_id=record_id)
