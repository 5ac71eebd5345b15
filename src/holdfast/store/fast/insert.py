"""Shortcuts of `Store.insert`: plain tasks, which have no dependencies, no limits and a generated id.

Promises: a request whose answer was lost may be repeated. If a row exists already, the whole group is left to
the general path. Never: reads before the insert.

`insert` and `insert_and_claim` return None, and have written nothing, if the group needs the general path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import TypeAlias

from holdfast.core.alike import FIRST_PART, AlikeTasks
from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.submit import Submission
from holdfast.core.task import QUEUED, Task
from holdfast.store.access import Access
from holdfast.store.fast.lone_caller import LoneCaller
from holdfast.store.port import RowExists
from holdfast.store.script import Script
from holdfast.store.scripts.insert import Inserted

PreparedInsert: TypeAlias = Callable[[str, str, float, str], Awaitable[Inserted]]
"""Inserts a task: its id, its payload, the time of its creation, the hint."""


async def insert(
    access: Access, lone: LoneCaller, group: Sequence[Submission], *, hint: str
) -> list[Inserted] | None:
    """A single task, for which one caller waits, is recorded at the time of its creation."""
    if isinstance(group, AlikeTasks):
        lone.others_came()
        return await _insert_alike(access, group, hint)
    if len(group) != 1:
        lone.others_came()
        return await _insert_many(access, group, hint)
    submission = group[0]
    task = submission.task
    if not submission.is_plain:
        return None
    if task.tags_json is not None:
        return await _insert_many(access, group, hint)
    record_id = access.ids.record(task.created_at)
    statement = access.dialect.fast.insert_one(
        task, now=task.created_at, record_id=record_id, hint=hint
    )
    try:
        small = access.driver.is_quick and lone.is_back()
        if small and lone.is_tiring():
            await asyncio.sleep(0)
        await access.driver.call(statement, small=small)
    except RowExists:
        if not await _is_ours(access, task.id, record_id):
            return None
    return [Inserted(task.id, QUEUED, True, task.created_at)]


def prepare_insert(
    access: Access, lone: LoneCaller, model: Task, general: Callable[..., Awaitable[Inserted]]
) -> PreparedInsert:
    """See `Store.prepare_insert`. `general`: inserts a task whose id exists."""
    driver, new_record = access.driver, access.ids.record
    statement = access.dialect.fast.prepare_insert(model)

    async def insert_one(task_id: str, payload_json: str, now: float, hint: str) -> Inserted:
        record_id = new_record(now)
        call = statement(task_id, payload_json, now, record_id, hint)
        try:
            small = driver.is_quick and lone.is_back()
            if small and lone.is_tiring():
                await asyncio.sleep(0)
            await driver.call(call, small=small)
        except RowExists:
            if not await _is_ours(access, task_id, record_id):
                return await general(task_id, payload_json, now, hint)
        return Inserted(task_id, QUEUED, True, now)

    return insert_one


async def _insert_many(
    access: Access, group: Sequence[Submission], hint: str
) -> list[Inserted] | None:
    if not group or not _is_quick(access, group):
        return None
    now = access.now()
    record_id = access.ids.record(now)
    try:
        new = await access.driver.write_one(
            lambda: access.dialect.fast.insert_plain(group, now=now, record_id=record_id, hint=hint)
        )
    except RowExists:
        if not await _is_ours(access, group[0].task.id, record_id):
            return None
        new = {submission.task.id for submission in group}
    return _inserted(group, new, now)


async def _insert_alike(access: Access, group: AlikeTasks, hint: str) -> list[Inserted] | None:
    """A group of one part is one statement. The parts of a larger one are a transaction, which may run
    again, with the same tasks. Then all of them are made before it begins."""
    dialect, now = access.dialect, access.now()
    if group.model.task.tags_json is not None and not dialect.one_writer:
        return None

    def script(record_id: int) -> Script[list[Inserted]]:
        new = yield from dialect.fast.insert_alike(group, now=now, record_id=record_id, hint=hint)
        # A server runs the last statement meanwhile.
        if new is None:
            return [Inserted(task_id, QUEUED, True, now) for task_id in group.ids()]
        return [Inserted(task_id, QUEUED, task_id in new, now) for task_id in group.ids()]

    runs = count(1)

    def parts() -> Script[list[Inserted]]:
        if next(runs) > 1:
            # The server may have ended the first run because it waited too long for checks of payloads.
            group.make()
        return script(access.ids.record(now))

    is_whole = len(group) <= FIRST_PART or dialect.one_writer
    record_id = access.ids.record(now)
    try:
        if is_whole:
            group.make()
            return await access.driver.write_one(lambda: script(record_id))
        return await access.write(parts)
    except RowExists:
        if not (is_whole and await _is_ours(access, group.ids()[0], record_id)):
            return None
        return [Inserted(task_id, QUEUED, True, now) for task_id in group.ids()]


async def insert_and_claim(
    access: Access, group: Sequence[Submission], claim: ClaimRequest
) -> tuple[list[Inserted], Claimed] | None:
    """In one commit. A single task that is first in line starts with its insert. None if a task is not
    plain."""
    if not _is_quick(access, group):
        return None
    now = access.now()
    try:
        is_one = len(group) == 1 and not _has_tags(group)
        if is_one and (started := await _start_one(access, group[0].task, claim, now)):
            return [Inserted(started.id, QUEUED, True)], Claimed([started])
        return await _insert_then_claim(access, group, claim, now)
    except RowExists:
        return None


def _is_quick(access: Access, group: Sequence[Submission]) -> bool:
    """Whether all tasks are plain. Tags are rows of their own: with many writers they need a transaction."""
    if False in [submission.is_plain for submission in group]:
        return False
    return access.dialect.one_writer or not _has_tags(group)


def _has_tags(group: Sequence[Submission]) -> bool:
    return any(submission.task.tags_json is not None for submission in group)


async def _start_one(access: Access, task: Task, claim: ClaimRequest, now: float) -> Task | None:
    start = access.dialect.fast.start_one(task, claim, now=now)
    if start is None:
        return None
    statement, started = start
    written = await access.driver.call(statement, small=True)
    return started if written[0] else None


async def _insert_then_claim(
    access: Access, group: Sequence[Submission], claim: ClaimRequest, now: float
) -> tuple[list[Inserted], Claimed]:
    fast = access.dialect.fast
    first, second = access.ids.record(now), access.ids.record(now)

    def script() -> Script[tuple[set[str], Claimed]]:
        new = yield from fast.insert_plain(group, now=now, record_id=first, hint="")
        claimed, _ = yield from fast.claim(claim, now=now, record_id=second)
        return new, claimed

    new, claimed = await access.driver.write_one(script, small=True)
    return _inserted(group, new), claimed


async def _is_ours(access: Access, task_id: str, record_id: int) -> bool:
    """Whether an existing row was inserted with this record, by a first run whose answer was lost. If
    not, the caller repeated the request, and the general path answers it."""
    rows = await access.rows("task_history", id=task_id)
    return bool(rows) and rows[0][0].partition(",")[0] == str(record_id)


def _inserted(
    group: Sequence[Submission], new: set[str], created_at: float | None = None
) -> list[Inserted]:
    """The answers to a group. `created_at`: of rows that no claim has changed in the same commit."""
    ids = [submission.task.id for submission in group]
    return [Inserted(task_id, QUEUED, task_id in new, created_at) for task_id in ids]
