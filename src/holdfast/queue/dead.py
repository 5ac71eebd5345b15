"""Dead letters: tasks that rest in failed. Listed, grouped, edited, replayed, discarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from holdfast.bus.port import FEED, WORK
from holdfast.core.check import (
    OFFSET_MAX,
    check_flag,
    check_name,
    check_number,
    check_page,
    check_positive,
    check_text,
    check_whole,
)
from holdfast.core.command import Abort, Instruction, Replay
from holdfast.core.decide import Transition
from holdfast.core.submit import DELAY_SECONDS_MAX, encode_payload
from holdfast.core.task import Status, Task
from holdfast.core.upkeep_rules import failed_with_parent
from holdfast.queue.operate import Operate
from holdfast.store.reads import DeadFilter
from holdfast.store.store import Store

REPLAY_BATCH = 500
RATE_MAX = 1_000_000.0
Make: TypeAlias = Callable[[Task, int], Instruction]
"""What to order for the nth of them."""
Wanted: TypeAlias = dict[str, Any]
"""Which dead letters, by columns; None for any."""


class DeadGroup(msgspec.Struct, frozen=True):
    """Dead letters with the same cause."""

    fingerprint: str
    count: int
    first_at: float
    last_at: float
    sample_id: str
    type: str = ""
    error: str = ""


class DeadLetters(Operate):
    """The part of a queue that looks after what failed."""

    async def get_dead_tasks(
        self,
        *,
        limit: int = 100,
        offset: int = 0,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
    ) -> list[Task]:
        """The latest first."""
        return await self._dead(
            limit=check_page(limit),
            skip=check_whole("offset", offset, least=0, most=OFFSET_MAX),
            **_wanted(type, queue, fingerprint),
        )

    async def get_dead_groups(self, *, limit: int = 50) -> list[DeadGroup]:
        """By error fingerprint, the largest first."""
        backend = await self._open()
        rows = await backend.store.reads.dead_groups(check_page(limit))
        samples = await backend.store.get([row.sample_id for row in rows])
        groups = []
        for row in rows:
            sample = samples.get(row.sample_id)
            groups.append(
                DeadGroup(
                    row.fingerprint,
                    row.count,
                    row.first_at,
                    row.last_at,
                    row.sample_id,
                    sample.type if sample else "",
                    (sample.error or "") if sample else "",
                )
            )
        return groups

    async def replay_dead_task(
        self,
        task_id: str,
        *,
        payload: object = msgspec.UNSET,
        delay: float = 0.0,
        actor: str = "api",
    ) -> Task:
        """Gives a dead letter new attempts, with another payload if one is given; dependents that
        failed with it wait for it again. IllegalTransition when it is no dead letter, NotFound when
        there is no such task."""
        seconds = check_number("delay", delay, most=DELAY_SECONDS_MAX)
        text = None if payload is msgspec.UNSET else encode_payload(payload)
        return await self._order(task_id, Replay(actor, seconds, text))

    async def replay_dead(
        self,
        *,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        rate: float | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        actor: str = "api",
    ) -> int:
        """Replays all dead letters that match, at most `rate` a second; how many came back. The pace is
        kept in the store: each gets its own due time, so it survives a restart. What had failed with
        another task comes back with that one, and waits for it."""
        if rate is not None:
            check_positive("rate", rate, most=RATE_MAX)
        check_name("actor", actor)
        wanted = _wanted(type, queue, fingerprint)
        return await self._each_dead(
            lambda task, n: Instruction(task.id, Replay(actor, n / rate if rate else 0.0)),
            wanted,
            limit=limit,
            dry_run=dry_run,
            own_first=True,
        )

    async def discard_dead(
        self,
        *,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        actor: str = "api",
        reason: str = "discarded",
    ) -> int:
        """Ends all dead letters that match, for good; how many."""
        check_name("actor", actor)
        check_text("reason", reason)
        return await self._each_dead(
            lambda task, _: Instruction(task.id, Abort(actor, reason)),
            _wanted(type, queue, fingerprint),
            limit=limit,
            dry_run=dry_run,
        )

    async def _each_dead(
        self,
        make: Make,
        wanted: Wanted,
        *,
        limit: int | None,
        dry_run: bool,
        own_first: bool = False,
    ) -> int:
        """How many are dead no more. `own_first`: those that died of their own bring others back with
        them; only what is left then is taken as it comes."""
        check_flag("dry_run", dry_run)
        if limit is not None:
            check_whole("limit", limit, least=1, most=OFFSET_MAX)
        backend = await self._open()
        sweep = _Sweep(self, make, wanted | {"before": backend.store.now()}, limit)
        were = await self._count_dead(sweep.wanted)
        if dry_run:
            return were if limit is None else min(were, limit)
        while own_first and await sweep.once(own=True):
            await _follow(backend.store)
        await sweep.once(own=False)
        if sweep.done:
            backend.bus.publish(WORK)
            backend.bus.publish(FEED)
        return max(sweep.done, were - await self._count_dead(sweep.wanted))

    async def _count_dead(self, wanted: Wanted) -> int:
        backend = await self._open()
        return await backend.store.reads.count_dead(DeadFilter(**wanted))

    async def _dead(
        self, *, limit: int, skip: int, before: float | None = None, **wanted: str | None
    ) -> list[Task]:
        backend = await self._open()
        which = DeadFilter(**wanted, before=before)
        tasks = await backend.store.reads.find_dead(which, limit=limit, skip=skip)
        return [task for task in tasks if task.status is Status.FAILED]


def _wanted(type: object, queue: object, fingerprint: object) -> Wanted:
    given = {"type": type, "queue": queue, "fingerprint": fingerprint}
    return {
        name: value if value is None else check_name(name, value) for name, value in given.items()
    }


async def _follow(store: Store) -> None:
    """Brings back what failed with those that were replayed and did not fit into their transactions; what
    another process brings back at this moment is left to that one."""
    while parents := await store.cascades():
        if not sum([await store.settle(parent_id) for parent_id in parents]):
            return


class _Sweep:
    """Goes over the dead letters that match, a batch at a time."""

    def __init__(self, queue: DeadLetters, make: Make, wanted: Wanted, limit: int | None) -> None:
        self._queue = queue
        self._make = make
        self.wanted = wanted
        self._limit = limit
        self.done = 0

    async def once(self, *, own: bool) -> int:
        """From the newest to the oldest; how many changed. `own`: only those that died of their own."""
        backend = await self._queue._open()
        before = self.done
        skip = 0
        while self._limit is None or self.done < self._limit:
            size = (
                REPLAY_BATCH if self._limit is None else min(REPLAY_BATCH, self._limit - self.done)
            )
            tasks = await self._queue._dead(limit=size, skip=skip, **self.wanted)
            if not tasks:
                break
            chosen = [task for task in tasks if not (own and failed_with_parent(task))]
            instructions = [self._make(task, self.done + n) for n, task in enumerate(chosen)]
            rulings = await backend.store.apply(instructions) if instructions else []
            moved = sum(isinstance(ruling, Transition) for ruling in rulings)
            self.done += moved
            skip += len(tasks) - moved
        return self.done - before
