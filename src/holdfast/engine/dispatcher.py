"""Claims tasks for free workers.

Promises: claims in batches and only what can start soon; wakes on hints, when a worker is free and when
the next task is due; keeps the share of the aged (`core.priority`). Never: runs or finishes anything.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.bus.port import Bus
from holdfast.clock import Clock
from holdfast.core import capacity
from holdfast.core.priority import AGEING_SECONDS, aged_share
from holdfast.core.task import Priority, Task
from holdfast.engine.handlers import Handlers
from holdfast.engine.loop import Loop
from holdfast.engine.pool import Pool
from holdfast.store.store import SMALL, Claim, Store

PUSHED_POLL_SECONDS: Final = 2.0
POLL_SECONDS: Final = 0.25
NO_AGED_SECONDS: Final = 1.0
GATES_SECONDS: Final = 1.0
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
        self.stopping = False
        self.claiming = False
        self._trickle = False
        self._is_saturated = True
        self._served = Priority.CRITICAL
        """The least urgent priority that claims reach by themselves; only below it can anybody starve."""
        self.claimed = 0

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that this process serves: those asked for, else those of its handlers."""
        return self._queues if self._queues is not None else self._handlers.queues()

    async def tick(self) -> float:
        if self.stopping or not len(self._handlers):
            return PUSHED_POLL_SECONDS
        room = min(self._pool.room(), capacity.CLAIM_MAX)
        if room < 1 or self._is_too_little(room):
            return PUSHED_POLL_SECONDS
        self.claiming = True
        try:
            tasks = await self._claim(room)
            self._pool.give(tasks)
        finally:
            self.claiming = False
        if await self._open_gates() or self._is_saturated:
            return 0.0
        return await self._pause()

    def _is_too_little(self, room: int) -> bool:
        """While short tasks run, a few free workers are not worth a claim: more will be free at once."""
        enough = min(capacity.CLAIM_MAX, self._pool.maximum) // 4
        is_short = self._pool.is_flowing and self._pool.mean_seconds < SHORT_SECONDS
        return self._pool.busy > 0 and room < enough and is_short

    async def _claim(self, room: int) -> list[Task]:
        claim = Claim(
            node=self._node,
            queues=self.queues,
            types=self._handlers.types(),
            limit=room,
            lease_seconds=self._lease_seconds,
        )
        tasks: list[Task] = []
        parked = 0
        share = aged_share(self._starts, room)
        now = self._store.now()
        # As long as a claim gets all that is ready, the aged are among it.
        if share.aged and self._is_saturated and now >= self._no_aged_until:
            aged = await self._store.claim_aged(
                replace(claim, limit=share.aged), self._ageing_seconds, below=self._served
            )
            tasks += aged.tasks
            parked += aged.parked
            if not aged.tasks:
                self._no_aged_until = now + NO_AGED_SECONDS
        if len(tasks) < room:
            wanted = replace(claim, limit=room - len(tasks))
            claimed = await self._store.claim(wanted, small=self._trickle)
            self._trickle = len(claimed.tasks) <= SMALL
            self._served = max((task.priority for task in claimed.tasks), default=Priority.CRITICAL)
            tasks += claimed.tasks
            parked += claimed.parked
            if claimed.opens_at is not None:
                self._gates_at = min(self._gates_at, claimed.opens_at)
        self._starts = aged_share(self._starts, len(tasks)).counted
        self._is_saturated = len(tasks) + parked >= room
        self.claimed += len(tasks)
        if parked:
            self.wake()  # Others may be ready behind those that a limit refused.
        return tasks

    async def _open_gates(self) -> int:
        """Lets in what waited for a rate, when it is time; how many may be claimed now."""
        now = self._store.now()
        if now < self._gates_at:
            return 0
        opened, opens_at = await self._store.open_gates()
        self._gates_at = min(opens_at or now + GATES_SECONDS, now + GATES_SECONDS)
        return opened

    async def _pause(self) -> float:
        poll = PUSHED_POLL_SECONDS if self._bus.mode().pushing else POLL_SECONDS
        due_at = await self._store.next_due(self.queues)
        moments = [at for at in (due_at, self._gates_at) if at is not None]
        now = self._store.now()
        return max(0.0, min([poll, *(at - now for at in moments)]))
