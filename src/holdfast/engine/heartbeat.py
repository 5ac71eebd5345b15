"""Keeps the leases of what this process runs, and says that it is alive.

Promises: every held lease is renewed each third of its length; what was lost is told to the pool at once;
what the store believes to be ours but is not (a claim whose answer never came) is given back unpunished.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.clock import Clock
from holdfast.core.codec import dumps
from holdfast.core.command import Instruction, Release
from holdfast.core.task import RunId, Task
from holdfast.engine import outcome_log
from holdfast.engine.handlers import Defaults, Handler, Handlers, resolved
from holdfast.engine.loop import Loop
from holdfast.engine.namesakes import Namesakes
from holdfast.engine.pool import WorkerPool
from holdfast.store.store import Store

UNKNOWN_AFTER_SECONDS: Final = 3.0
"""A claim that is still on its way is not yet unknown."""
COMPARE_SECONDS: Final = 60.0
"""Between two looks at how other nodes define the types of this one."""


class Heartbeat(Loop):
    """One for each process."""

    name = "keeper"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        pool: WorkerPool,
        handlers: Handlers,
        *,
        node: str,
        lease_seconds: float,
        describe: Callable[[], dict[str, object]],
        is_claiming: Callable[[], bool],
        on_released: Callable[[], None],
        defaults: Defaults,
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._pool = pool
        self._handlers = handlers
        self._announced: tuple[Handler, ...] = ()
        self.namesakes = Namesakes(node)
        self._compare_at = float("-inf")
        self._node = node
        self._lease_seconds = lease_seconds
        self._describe = describe
        self._is_claiming = is_claiming
        self._on_released = on_released
        self._defaults = defaults
        self.lost = 0
        self.renewed_at = clock.monotonic()

    async def tick(self) -> float:
        self._pool.press()
        if self.is_looping:
            await self.apart("announcing handlers", self._announce())
        else:
            await self._announce()  # A start that cannot announce its handlers has failed.
        renewed = [run for run, held in self._pool.held.items() if held.is_renewed]
        info_json = dumps(self._describe())
        now = self._store.now()
        kept = await self._store.heartbeat(self._node, info_json, renewed, self._lease_seconds)
        # Whatever was committed while the renewal was on its way is not lost but done.
        held = self._pool.held
        lost = {run for run in kept.lost if run in held and not held[run].has_ended}
        if lost:
            self.lost += len(lost)
            tasks = [held[run].task for run in sorted(lost)]
            self._pool.lose(lost)
            await self.apart("looking up what was lost", self._tell_lost(tasks))
        before = now - min(UNKNOWN_AFTER_SECONDS, self._lease_seconds / 3)
        await self.apart("giving back what is unknown here", self._release(kept.owned, before))
        self.renewed_at = self.clock.monotonic()
        await self.apart("comparing types with other nodes", self._compare())
        return self._lease_seconds / (3 if kept.is_whole else 30)

    async def _tell_lost(self, tasks: Sequence[Task]) -> None:
        """An operator who cancels or pauses a task takes its lease too, which is no trouble."""
        found = await self._store.get([task.id for task in tasks])
        for task in tasks:
            outcome_log.taken(task, found.get(task.id))

    async def _announce(self) -> None:
        """Makes the types known to everyone through the store, also those registered while running, and those
        that got other options."""
        handlers = tuple(self._handlers)
        if handlers != self._announced:
            rows = [
                (h.type, h.config.queue, dumps(resolved(h.config, self._defaults)))
                for h in handlers
            ]
            now = self._store.now()
            await self._store.execute("register_types", rows, now=now, node=self._node)
            self._announced = handlers
            self.namesakes.define(handlers, self._defaults)
            self._compare_at = float("-inf")

    async def _compare(self) -> None:
        now = self.clock.monotonic()
        if now >= self._compare_at:
            self.namesakes.compare(await self._store.query("nodes"), self._store.now())
            self._compare_at = now + COMPARE_SECONDS

    async def release_unknown(self) -> None:
        """Gives back what the store believes to run here, but does not."""
        now = self._store.now()
        await self._release(await self._store.owned(self._node), now)

    async def _release(self, owned: Sequence[tuple[str, int, float]], before: float) -> None:
        if self._is_claiming():
            return
        unknown = [
            Instruction(task_id, Release("the claim's answer was lost"), fence=fence)
            for task_id, fence, started_at in owned
            if RunId(task_id, fence) not in self._pool.held and started_at <= before
        ]
        if unknown:
            await self._store.apply(unknown, wait=False)
            self._on_released()
