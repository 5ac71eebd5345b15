"""Claims tasks for free workers. `core.claiming` decides the next step; the loop performs it.

Promises: claims in batches, and only tasks that can start soon. It wakes on a hint, when a worker is
free, when the next task is due and when the next limit opens. No worker idles beside a ready task for
more than a second, or one poll if a hint was lost. Aged tasks get their share (`core.priority`).
Never: runs or finishes a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import assert_never

from msgspec.structs import replace

from holdfast.bus.port import WORK, Bus
from holdfast.clock import Clock
from holdfast.core import claiming
from holdfast.core.claiming import (
    Claimed,
    ClaimFirst,
    ClaimMany,
    ClaimRequest,
    ClaimState,
    Hint,
    ReadUpcoming,
    Sleep,
    Step,
    Upcoming,
)
from holdfast.core.priority import AGEING_SECONDS
from holdfast.core.submit import Submission
from holdfast.engine.handlers import Handlers
from holdfast.engine.loop import Loop
from holdfast.engine.pool import WorkerPool
from holdfast.errors import StoreUnavailable
from holdfast.store.store import Inserted, Store


class InProgress:
    """`with` sets it. A class, because `contextmanager` makes a generator for each claim."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False

    def __enter__(self) -> None:
        self.is_set = True

    def __exit__(self, *_: object) -> None:
        self.is_set = False


class Dispatcher(Loop):
    """One for each process."""

    name = "dispatcher"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        bus: Bus,
        pool: WorkerPool,
        handlers: Handlers,
        *,
        node: str,
        lease_seconds: float,
        refused: Callable[[], frozenset[str]] = frozenset,
        queues: tuple[str, ...] | None = None,
        projects: tuple[str, ...] | None = None,
        ageing_seconds: float = AGEING_SECONDS,
        on_claimed: Callable[[int], None] = lambda size: None,
    ) -> None:
        """`refused` names the types that have a handler in this process but cannot run now. `on_claimed`
        gets the number of tasks of each claim."""
        super().__init__(clock)
        self._store = store
        self._bus = bus
        self._pool = pool
        self._handlers = handlers
        self._node = node
        self._lease_seconds = lease_seconds
        self._refused = refused
        self._queues = queues
        self._projects = projects
        self._ageing_seconds = ageing_seconds
        self._state = ClaimState()
        self._hint = Hint.NONE
        """The hints since the last tick, combined."""
        self.stopping = False
        """No further claims."""
        self.ending = False
        """At most one claim a tick: a steady flow of short tasks must not delay a stop."""
        self.claiming = InProgress()
        self._on_claimed = on_claimed
        self.claimed = 0

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that this process serves: the configured ones, else those of its handlers."""
        return self._queues if self._queues is not None else self._handlers.queues()

    async def tick(self) -> float:
        hint, self._hint = self._hint if self.was_woken else Hint.NONE, Hint.NONE
        if self.stopping or not len(self._handlers):
            return claiming.PUSHED_POLL_SECONDS
        step = self._begin(hint)
        while not isinstance(step, Sleep):
            step = await self._do(step)
        return step.seconds

    def _begin(self, hint: Hint) -> Step:
        if not (free := self._room()):
            return self._sleep_full()
        return claiming.begin(self._state, hint, free, self._store.now())

    async def _do(self, step: ReadUpcoming | ClaimFirst | ClaimMany) -> Step:
        match step:
            case ReadUpcoming():
                return await self._after_look(await self._store.backlog.first_due(self.queues))
            case ClaimFirst():
                return ReadUpcoming() if await self._claim_first() else self._claim_or_sleep()
            case ClaimMany():
                # With a saturated claim, the next claim is sent before the workers run these tasks.
                judged_at = self._store.now()
                await self._claim_many(step)
                if self.ending:
                    return self._sleep_full()
                if self._state.is_saturated:
                    await self._open_gates(self._state.gates_at)
                    return self._claim_or_sleep()
                # Nothing more to claim: let the workers start before the next query.
                await asyncio.sleep(0)
                # Tasks that became due since the claim are claimed by the next one, at once.
                upcoming = await self._store.backlog.next_due(self.queues, after=judged_at)
                if await self._open_gates(upcoming.opens_at):
                    return self._claim_or_sleep()
                return Sleep(self._pause(upcoming))
            case _:
                assert_never(step)

    async def _after_look(self, upcoming: Upcoming) -> Step:
        if await self._open_gates(upcoming.opens_at) or claiming.is_due(
            upcoming, self._store.now()
        ):
            return self._claim_or_sleep()
        return Sleep(self._pause(upcoming))

    def _claim_or_sleep(self) -> Step:
        free = self._room()
        if free < 1:
            return self._sleep_full()
        return claiming.claim_many(self._state, free, self._store.now())

    def _sleep_full(self) -> Sleep:
        """Sleeps until a worker is free. That worker triggers a claim."""
        self._state = claiming.without_room(self._state)
        return Sleep(claiming.PUSHED_POLL_SECONDS)

    async def warm_up(self) -> None:
        """Pays the cost of connecting and planning at the start, not on the first task."""
        with suppress(StoreUnavailable):
            await self._store.warm_up(self.request(1))

    def worker_freed(self) -> None:
        """A worker is free. After a claim that drained the queue, only a hint announces more work."""
        if self._state.is_saturated:
            self.wake()

    def wake(self) -> None:
        self._hint = Hint.MANY
        super().wake()

    def hinted(self, *, one: bool) -> None:
        """A hint has arrived. `one`: it is probably about a single task."""
        is_only = one and not self.is_woken
        super().wake()
        self._hint = Hint.ONE if is_only else Hint.MANY

    async def _claim_first(self) -> bool:
        """Claims the first ready task, which is cheaper than a full claim. Returns whether there was one."""
        with self.claiming:
            tasks = (await self._store.claim(self.request(1, expected=1))).tasks
            self._count(len(tasks))
            self._state = claiming.after_first(self._state, len(tasks))
            self._pool.give(tasks)
        if tasks:
            await asyncio.sleep(0)
        return bool(tasks)

    async def _claim_many(self, step: ClaimMany) -> None:
        with self.claiming:
            aged = await self._claim_aged(step.aged) if step.aged else Claimed([])
            tasks, parked, claimed = aged.tasks, aged.parked, Claimed([])
            if len(tasks) < step.limit:
                expected = claiming.SMALL if self._state.is_small else None
                claimed = await self._store.claim(self.request(step.limit - len(tasks), expected))
                self._state = claiming.after_line(self._state, claimed)
            self._took(
                replace(claimed, tasks=tasks + claimed.tasks, parked=parked + claimed.parked),
                step.limit,
            )
            self._pool.give(tasks + claimed.tasks)

    async def _claim_aged(self, limit: int) -> Claimed:
        now, began = self._store.now(), self.clock.monotonic()
        aged = await self._store.claim_aged(
            self.request(limit), self._ageing_seconds, below=self._state.served
        )
        took_seconds = self.clock.monotonic() - began
        self._state = claiming.after_aged(self._state, len(aged.tasks), now, took_seconds)
        return aged

    def _room(self) -> int:
        """How many tasks to claim now."""
        return 0 if self.stopping else claiming.room(self._pool.load())

    async def insert_and_claim(self, group: Sequence[Submission]) -> list[Inserted]:
        """Inserts new tasks and claims as many as there is room for, in one commit."""
        async with self.ticking:
            limit = self._room()  # After the wait: another tick may have filled the pool.
            if limit < 1:
                inserted = await self._store.insert(group)
                self.wake()
                return inserted
            with self.claiming:
                inserted, claimed = await self._store.insert_and_claim(group, self.request(limit))
                self._took(claimed, limit)
                self._pool.give(claimed.tasks)
        if len(claimed.tasks) < len(group):
            self.wake()
        return inserted

    async def claim_reserved(self) -> None:
        """Claims tasks that an operator has reserved for this node, as many as there is room for."""
        async with self.ticking:
            limit = self._room()
            if limit < 1:
                return
            with self.claiming:
                claimed = await self._store.by_id.claim_assigned(self.request(limit))
                self._count(len(claimed.tasks))
                self._pool.give(claimed.tasks)
        if claimed.parked:
            self.wake()  # The next look reads when the limit that refused them opens.

    @property
    def is_idle(self) -> bool:
        """Whether workers are free and no claim is in progress. A new task can then start at once."""
        if not self.is_looping or self.stopping or self.ticking.locked():
            return False
        return self._pool.is_empty or self._room() > 0

    def request(self, limit: int, expected: int | None = None) -> ClaimRequest:
        return ClaimRequest(
            node=self._node,
            queues=self.queues,
            types=self._types(),
            limit=limit,
            lease_seconds=self._lease_seconds,
            projects=self._projects,
            expected=expected,
        )

    def _types(self) -> tuple[str, ...]:
        """The types of the handlers, without those that cannot run now."""
        types, refused = self._handlers.types(), self._refused()
        return tuple(name for name in types if name not in refused) if refused else types

    def _took(self, claimed: Claimed, limit: int) -> None:
        """Updates the state and the counters after a claim."""
        self._state = claiming.after_claim(self._state, claimed, limit)
        self._count(len(claimed.tasks))
        if claimed.parked or claimed.look_again:
            self.wake()  # Other tasks may be ready behind the ones that a limit refused.

    def _count(self, size: int) -> None:
        self.claimed += size
        self._on_claimed(size)

    async def _open_gates(self, opens_at: float | None) -> int:
        """Unparks tasks when a limit opens. Returns how many were unparked."""
        now = self._store.now()
        if not claiming.are_gates_due(self._state, opens_at, now):
            return 0
        began = self.clock.monotonic()
        opened, _ = await self._store.backlog.open_gates()
        took_seconds = self.clock.monotonic() - began
        if opened > self._room():
            # More than this process can run: other processes may have room, and get no other hint.
            self._bus.publish(WORK)
        self._state = claiming.after_gates(self._state, opened, now, took_seconds)
        return opened

    def _pause(self, upcoming: Upcoming) -> float:
        seconds = claiming.pause_seconds(
            self._state, upcoming, self._store.now(), is_pushing=self._bus.mode().pushing
        )
        self._state = claiming.after_pause(self._state)
        return seconds
