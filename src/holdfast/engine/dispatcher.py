"""Claims tasks for free workers.

Promises: claims in batches and only what can start soon; wakes on hints, when a worker is free, when the
next task is due and when the next limit opens: no worker idles beside a task that may run for more than a
second, or for one poll where a hint was lost; keeps the share of the aged (`core.priority`).
Never: runs or finishes anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from holdfast.bus.port import WORK, Bus
from holdfast.clock import Clock
from holdfast.core import capacity
from holdfast.core.priority import AGEING_SECONDS, aged_share
from holdfast.core.submit import Submission
from holdfast.core.task import Priority, Task
from holdfast.engine.handlers import Handlers
from holdfast.engine.loop import Loop
from holdfast.engine.pool import Pool
from holdfast.errors import StoreUnavailable
from holdfast.store.claims import Ahead
from holdfast.store.scripts.limits import HELD_SECONDS
from holdfast.store.store import SMALL, Claim, Claimed, Inserted, Store

PUSHED_POLL_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.25
NO_AGED_SECONDS: Final = 1.0
EMPTY_TIMES: Final = 10
"""After a search that found no aged task, or a look at limits that let none in, the next one waits this many
times its duration: over a slow network looking must not take the time of claiming."""
GATES_SECONDS: Final = 1.0
"""While claims get all that they ask for, limits are looked at this often."""
SHORT_SECONDS: Final = 0.01


class Dispatcher(Loop):
    """One for each process."""

    name = "dispatcher"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        bus: Bus,
        pool: Pool,
        handlers: Handlers,
        *,
        node: str,
        lease_seconds: float,
        queues: tuple[str, ...] | None = None,
        ageing_seconds: float = AGEING_SECONDS,
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._bus = bus
        self._pool = pool
        self._handlers = handlers
        self._node = node
        self._lease_seconds = lease_seconds
        self._queues = queues
        self._ageing_seconds = ageing_seconds
        self._starts = 0
        self._no_aged_until = 0.0
        self._gates_at = 0.0
        self._not_before = 0.0
        self._blind_seconds = 0.0
        self._is_blind = False
        """The last claim may have missed something."""
        self._one_came = False
        """The only hint since the last tick was about a single task."""
        self.refused: Callable[[], frozenset[str]] = frozenset
        """Types that this process has handlers for and cannot run at the moment."""
        self.stopping = False
        """Claims nothing more."""
        self.ending = False
        """A tick makes one claim at most: a steady flow of short tasks must not keep a stop waiting."""
        self.claiming = False
        self._trickle = False
        self._is_saturated = True
        """There may be more than the last claim got."""
        self._served = Priority.CRITICAL
        """The least urgent priority that claims reach by themselves; only below it can anybody starve."""
        self.claimed = 0
        self._taking: set[asyncio.Task[list[Inserted]]] = set()

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that this process serves: those asked for, else those of its handlers."""
        return self._queues if self._queues is not None else self._handlers.queues()

    async def tick(self) -> float:
        if self.stopping or not len(self._handlers):
            return PUSHED_POLL_SECONDS
        if not self.was_woken and self._room() > 0 and (idle := await self._look()) is not None:
            return idle
        if self._is_one_enough() and (idle := await self._claim_next()) is not None:
            return idle
        # The next claim is on its way before the workers run what this one brought.
        while (room := self._room()) > 0:
            self.claiming = True
            judged_at = self._store.now()
            try:
                self._pool.give(await self._claim(room))
            finally:
                self.claiming = False
            if self.ending:
                break
            if self._is_saturated:
                await self._open_gates(self._gates_at)
                continue
            # Nothing more to claim: what was claimed starts before anything else is asked.
            await asyncio.sleep(0)
            # What became due since the claim judged it is claimed by the next one, at once.
            ahead = await self._store.next_due(self.queues, after=judged_at)
            if not await self._open_gates(ahead.opens_at):
                return self._pause(ahead)
        # Nobody has looked: whoever comes free has reason to.
        self._is_saturated = True
        return PUSHED_POLL_SECONDS

    async def warm_up(self) -> None:
        """Whoever starts may be slow; whoever has started should not be."""
        with suppress(StoreUnavailable):
            await self._store.warm_up(self._wanted(1))

    def freed(self) -> None:
        """A worker is free. After a claim that got all there was, only a hint can mean more."""
        if self._is_saturated:
            self.wake()

    def wake(self) -> None:
        self._one_came = False
        super().wake()

    def hinted(self, *, one: bool) -> None:
        """There is work; `one`: as far as is known, a single task."""
        is_only = one and not self.is_woken
        self.wake()
        self._one_came = is_only

    async def _claim_next(self) -> float | None:
        """Takes the first in line, which is less work than a claim of all there is; then how long there is
        nothing else to do. None when a claim is due."""
        self.claiming = True
        try:
            tasks = await self._store.claim_next(self._wanted(1))
            self.claimed += len(tasks)
            self._starts = aged_share(self._starts, len(tasks)).counted
            self._pool.give(tasks)
        finally:
            self.claiming = False
        if not tasks:
            return None
        await asyncio.sleep(0)
        return await self._look()

    async def _look(self) -> float | None:
        """How long there is nothing to do; None when something is due. A look costs less than a claim
        that gets nothing."""
        ahead = await self._store.first_due(self.queues)
        if await self._open_gates(ahead.opens_at):
            return None
        is_due = ahead.due_at is not None and ahead.due_at <= self._store.now()
        return None if is_due else self._pause(ahead)

    def _room(self) -> int:
        """How many tasks to claim now."""
        room = min(self._pool.room(), capacity.CLAIM_MAX)
        return 0 if self.stopping or room < 1 or self._is_too_little(room) else room

    def _is_too_little(self, room: int) -> bool:
        """While short tasks run, a few free workers are not worth a claim: more will be free at once."""
        enough = min(capacity.CLAIM_MAX, self._pool.maximum) // 4
        is_short = self._pool.is_flowing and self._pool.mean_seconds < SHORT_SECONDS
        return self._pool.busy > 0 and room < enough and is_short

    def _is_one_enough(self) -> bool:
        """Whether all that is known to have come since a claim that left nothing behind is one task."""
        is_one, self._one_came = self._one_came, False
        return is_one and not (self._is_saturated or self._is_blind) and self._room() > 0

    @property
    def is_idle(self) -> bool:
        """Whether workers are free and no claim is under way: what comes in now can start at once."""
        return self.is_looping and not self.ticking.locked() and self._room() > 0

    async def take_in(self, group: Sequence[Submission]) -> list[Inserted]:
        """Hands new tasks in and claims, in one commit: half the way from enqueue to handler. For a
        store with one writer, when `is_idle`."""
        if self._store.is_quick:
            return await self._take_in(group)
        # A task of its own: a caller that gives up must not take the claim with it. (Were a quick write
        # slow after all and its caller gone, the keeper would find what nobody here knows of.)
        task = asyncio.create_task(self._take_in(group))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)
        return await asyncio.shield(task)

    async def _take_in(self, group: Sequence[Submission]) -> list[Inserted]:
        room = self._room()
        async with self.ticking:
            self.claiming = True
            try:
                inserted, claimed = await self._store.insert_and_claim(group, self._wanted(room))
                self._took(claimed, room)
                self._pool.give(claimed.tasks)
            finally:
                self.claiming = False
        if len(claimed.tasks) < len(group):
            self.wake()
        return inserted

    def _wanted(self, room: int) -> Claim:
        return Claim(
            node=self._node,
            queues=self.queues,
            types=self._types(),
            limit=room,
            lease_seconds=self._lease_seconds,
        )

    def _types(self) -> tuple[str, ...]:
        """The types of its handlers, but for those that cannot be run now."""
        types, refused = self._handlers.types(), self.refused()
        return tuple(each for each in types if each not in refused) if refused else types

    async def _claim(self, room: int) -> list[Task]:
        claim = self._wanted(room)
        tasks: list[Task] = []
        parked = 0
        claimed = Claimed([])
        share = aged_share(self._starts, room)
        now = self._store.now()
        # As long as a claim gets all that is ready, the aged are among it.
        if share.aged and self._is_saturated and now >= self._no_aged_until:
            begun = self.clock.monotonic()
            aged = await self._store.claim_aged(
                replace(claim, limit=share.aged), self._ageing_seconds, below=self._served
            )
            tasks += aged.tasks
            parked += aged.parked
            if not aged.tasks:
                took = self.clock.monotonic() - begun
                self._no_aged_until = now + max(NO_AGED_SECONDS, EMPTY_TIMES * took)
        if len(tasks) < room:
            wanted = replace(claim, limit=room - len(tasks))
            claimed = await self._store.claim(wanted, small=self._trickle)
            self._trickle = len(claimed.tasks) <= SMALL
            self._served = max((task.priority for task in claimed.tasks), default=Priority.CRITICAL)
            tasks += claimed.tasks
            parked += claimed.parked
        self._took(replace(claimed, tasks=tasks, parked=parked), room)
        return tasks

    def _took(self, claimed: Claimed, room: int) -> None:
        """Keeps the books of a claim."""
        if claimed.opens_at is not None:
            self._gates_at = min(self._gates_at, claimed.opens_at)
        self._starts = aged_share(self._starts, len(claimed.tasks)).counted
        self._is_saturated = len(claimed.tasks) + claimed.parked >= room
        self._blind_seconds = claimed.blind_seconds
        self._is_blind = claimed.blind_seconds > 0.0
        self.claimed += len(claimed.tasks)
        if claimed.parked or claimed.look_again:
            self.wake()  # Others may be ready behind those that a limit refused.

    async def _open_gates(self, opens_at: float | None) -> int:
        """Lets in what waited at a limit, when it is time; how many may be claimed now."""
        now = self._store.now()
        if opens_at is None or now < max(opens_at, self._not_before):
            return 0
        begun = self.clock.monotonic()
        opened, _ = await self._store.open_gates()
        took = self.clock.monotonic() - begun
        if opened > self._room():
            # More than fits here: other processes may have room, and nothing else tells them.
            self._bus.publish(WORK)
        self._gates_at = now + (GATES_SECONDS if opened else max(GATES_SECONDS, EMPTY_TIMES * took))
        # What could not be let in, another transaction holds at this moment.
        self._not_before = 0.0 if opened else now + HELD_SECONDS
        return opened

    def _pause(self, ahead: Ahead) -> float:
        poll = PUSHED_POLL_SECONDS if self._bus.mode().pushing else POLL_SECONDS
        if self._blind_seconds > 0.0:
            # What this claim may have missed can be seen then.
            poll, self._blind_seconds = min(poll, self._blind_seconds), 0.0
        moments = [] if ahead.due_at is None else [ahead.due_at]
        if ahead.opens_at is not None:
            moments.append(max(ahead.opens_at, self._not_before))
        now = self._store.now()
        return max(0.0, min([poll, *(at - now for at in moments)]))
