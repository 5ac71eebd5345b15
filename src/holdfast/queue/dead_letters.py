"""Use cases of dead letters, which are tasks with the status failed: list, group, replay, discard.

Promises: each change is recorded with its actor and reason (`By`). For a task that is not a dead letter,
IllegalTransition is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from holdfast.bus.port import FEED, WORK
from holdfast.core.check import (
    OFFSET_MAX,
    PAGE_MAX,
    check_flag,
    check_name,
    check_number,
    check_page,
    check_positive,
    check_whole,
)
from holdfast.core.command import Abort, Instruction, Replay
from holdfast.core.decide import Transition
from holdfast.core.submit import DELAY_SECONDS_MAX, encode_payload, patch_json
from holdfast.core.task import Task
from holdfast.core.upkeep_rules import failed_with_parent
from holdfast.errors import IllegalTransition, InvalidInput
from holdfast.queue.by import By
from holdfast.queue.session import Sessions
from holdfast.queue.tasks import Tasks
from holdfast.store.beside import Beside
from holdfast.store.rows import DeadLetterGroup
from holdfast.store.store import Store

REPLAY_BATCH = 500
RATE_MAX: Final = 1_000_000.0
MakeInstruction: TypeAlias = Callable[[Task, int], Instruction]
"""Makes the instruction for a dead letter, from the task and its number in the sweep."""


class DeadGroup(msgspec.Struct, frozen=True):
    """Dead letters with the same error fingerprint."""

    fingerprint: str
    count: int
    first_at: float
    last_at: float
    sample_id: str
    type: str = ""
    error: str = ""
    error_type: str = ""
    """The class of the exception of the sample; empty: it failed without one."""


class DeadFilter(msgspec.Struct, frozen=True):
    """Selects dead letters. A field that is None matches any."""

    type: str | None = None
    queue: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if value is not None:
                check_name(name, value)


class DeadLetters:
    """The use cases of dead letters."""

    def __init__(self, sessions: Sessions, tasks: Tasks) -> None:
        self._sessions = sessions
        self._tasks = tasks

    async def page(self, which: DeadFilter, *, limit: int = 100, offset: int = 0) -> list[Task]:
        """Returns one page, the latest first."""
        check_page(limit)
        check_whole("offset", offset, least=0, most=OFFSET_MAX)
        store = (await self._sessions.open()).store
        return await _dead(store, which, limit=limit, skip=offset)

    async def page_after(
        self, which: DeadFilter, last: Task | None, *, limit: int = 100
    ) -> list[Task]:
        """Returns the dead letters that died before `last`, the latest first. Those that died at the same
        time are ordered by id."""
        check_page(limit)
        store = (await self._sessions.open()).store
        before = None if last is None else last.finished_at
        size = limit if last is None else PAGE_MAX
        tasks: list[Task] = []
        skip = 0
        while len(tasks) < limit:
            rows = await _rows(store, which, limit=size, skip=skip, before=before)
            tasks += [task for task in rows if last is None or _order(task) < _order(last)]
            skip += len(rows)
            if len(rows) < size:
                break
        return tasks[:limit]

    async def get(self, task_id: str) -> Task:
        """Returns a dead letter. Raises IllegalTransition if the task is not one."""
        task = await self._tasks.get(task_id)
        if not task.is_dead:
            raise IllegalTransition(f"task {task.id} is {task.status}: it is not a dead letter")
        return task

    async def groups(self, *, limit: int = 50) -> list[DeadGroup]:
        """Returns the dead letters grouped by error fingerprint, the largest group first."""
        store = (await self._sessions.open()).store
        rows = await store.reads.dead_groups(check_page(limit))
        ids = {task_id for row in rows for task_id in (row.first_id, row.sample_id)}
        samples = await store.reads.get(sorted(ids))
        return [_group(row, samples) for row in rows]

    async def replay(
        self,
        task_id: str,
        by: By,
        *,
        payload: object = msgspec.UNSET,
        patch: Mapping[str, object] | None = None,
        delay: float = 0.0,
    ) -> Task:
        """Enqueues a dead letter again with new attempts, and with `payload` if given, or with its own after
        a merge patch. Dependents that failed with it wait for it again."""
        seconds = check_number("delay", delay, most=DELAY_SECONDS_MAX)
        if patch is not None and payload is not msgspec.UNSET:
            raise InvalidInput(
                "payload replaces the one that is there and patch changes it: give one of them"
            )
        text = None if payload is msgspec.UNSET else encode_payload(payload)
        change = Replay(by.actor, seconds, text, by.reason, patch_json(patch))
        return await self._tasks.apply(task_id, change, by)

    async def discard(self, task_id: str, by: By) -> Task:
        """Aborts a dead letter, which is final."""
        await self.get(task_id)
        return await self._tasks.cancel(task_id, by)

    async def replay_all(
        self,
        which: DeadFilter,
        by: By,
        *,
        rate: float | None = None,
        limit: int | None = None,
        patch: Mapping[str, object] | None = None,
        dry_run: bool = False,
    ) -> int:
        """Replays all dead letters that match, at most `rate` per second. Returns how many. The rate is
        stored as a due time of each task, so it survives a restart. A task that failed with a parent is
        replayed with that parent, and waits for it. `patch`: a merge patch of their payloads."""
        fields = patch_json(patch)
        if rate is not None:
            check_positive("rate", rate, most=RATE_MAX)
        return await self._change_all(
            lambda task, n: Instruction(
                task.id,
                Replay(by.actor, n / rate if rate else 0.0, reason=by.reason, patch_json=fields),
            ),
            which,
            by,
            limit=limit,
            dry_run=dry_run,
            roots_first=True,
        )

    async def discard_all(
        self, which: DeadFilter, by: By, *, limit: int | None = None, dry_run: bool = False
    ) -> int:
        """Aborts all dead letters that match, which is final. Returns how many."""
        return await self._change_all(
            lambda task, _: Instruction(task.id, Abort(by.actor, by.reason)),
            which,
            by,
            limit=limit,
            dry_run=dry_run,
        )

    async def _change_all(
        self,
        make: MakeInstruction,
        which: DeadFilter,
        by: By,
        *,
        limit: int | None,
        dry_run: bool,
        roots_first: bool = False,
    ) -> int:
        """Returns how many tasks are no longer dead. `roots_first`: tasks that did not fail with a parent
        come first, because their dependents return with them."""
        by.of_unversioned("a group of dead letters")
        check_flag("dry_run", dry_run)
        if limit is not None:
            check_whole("limit", limit, least=1, most=OFFSET_MAX)
        resources = await self._sessions.open()
        store = resources.store
        sweep = _Sweep(store, make, which, store.now(), limit, beside=by.beside)
        before = await sweep.count()
        if dry_run:
            return before if limit is None else min(before, limit)
        while roots_first and await sweep.once(roots_only=True):
            await _follow(store)
        await sweep.once(roots_only=False)
        if sweep.done:
            resources.bus.publish(WORK)
            resources.bus.publish(FEED)
        return max(sweep.done, before - await sweep.count())


def _group(row: DeadLetterGroup, samples: Mapping[str, Task]) -> DeadGroup:
    """A group with its latest dead letter as the sample, or with its first if the latest only failed with a
    parent."""
    sample = samples.get(row.sample_id)
    if sample is not None and failed_with_parent(sample):
        sample = samples.get(row.first_id, sample)
    return DeadGroup(
        row.fingerprint,
        row.count,
        row.first_at,
        row.last_at,
        sample.id if sample else row.sample_id,
        sample.type if sample else "",
        (sample.error or "") if sample else "",
        sample.failure.error_type if sample and sample.failure else "",
    )


async def _dead(
    store: Store, which: DeadFilter, *, limit: int, skip: int, before: float | None = None
) -> list[Task]:
    tasks = await _rows(store, which, limit=limit, skip=skip, before=before)
    return [task for task in tasks if task.is_dead]


async def _rows(
    store: Store, which: DeadFilter, *, limit: int, skip: int, before: float | None
) -> list[Task]:
    return await store.reads.find_dead(
        type=which.type,
        queue=which.queue,
        fingerprint=which.fingerprint,
        before=before,
        limit=limit,
        skip=skip,
    )


def _order(task: Task) -> tuple[float, str]:
    return task.finished_at or 0.0, task.id


async def _follow(store: Store) -> None:
    """Revives the dependents of replayed tasks that did not fit into their transactions. Stops when another
    process revives the rest."""
    while parents := await store.cascades.pending():
        if not sum([await store.cascades.settle(parent_id) for parent_id in parents]):
            return


class _Sweep:
    """Changes the dead letters that match and died before a given time, in batches."""

    def __init__(
        self,
        store: Store,
        make: MakeInstruction,
        which: DeadFilter,
        before: float,
        limit: int | None,
        *,
        beside: Beside | None = None,
    ) -> None:
        self._store = store
        self._make = make
        self._which = which
        self._before = before
        self._limit = limit
        self._beside = beside
        self.done = 0

    async def count(self) -> int:
        which = self._which
        return await self._store.reads.count_dead(
            type=which.type,
            queue=which.queue,
            fingerprint=which.fingerprint,
            before=self._before,
        )

    async def once(self, *, roots_only: bool) -> int:
        """Makes one pass from the newest to the oldest. Returns how many changed. `roots_only`: skips tasks
        that failed with a parent."""
        done_before = self.done
        skip = 0
        while self._limit is None or self.done < self._limit:
            size = (
                REPLAY_BATCH if self._limit is None else min(REPLAY_BATCH, self._limit - self.done)
            )
            tasks = await _dead(
                self._store, self._which, limit=size, skip=skip, before=self._before
            )
            if not tasks:
                break
            chosen = [task for task in tasks if not (roots_only and failed_with_parent(task))]
            instructions = [self._make(task, self.done + n) for n, task in enumerate(chosen)]
            rulings = (
                await self._store.apply(instructions, beside=self._beside) if instructions else []
            )
            moved = sum(isinstance(ruling, Transition) for ruling in rulings)
            self.done += moved
            skip += len(tasks) - moved
        return self.done - done_before
