"""The heartbeat of a node: renews its leases and reports that it is alive.

Promises: the lease of every owned run is renewed each third of its duration; the pool cancels a run that
lost its lease at once; a run that the store assigns to this node but the node does not own (the answer of
its claim was lost) is given back without spending an attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdfast.clock import Clock
from holdfast.core.codec import dumps
from holdfast.core.command import Instruction, Release
from holdfast.core.lease import renewal_interval
from holdfast.core.task import RunId, Task
from holdfast.engine import outcome_log
from holdfast.engine.handlers import Defaults, Handler, Handlers, resolved
from holdfast.engine.loop import Loop
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.engine.taken_runs import UNWIND_SECONDS, TakenRuns
from holdfast.engine.type_conflicts import TypeConflicts
from holdfast.store.rows import TypeRow
from holdfast.store.store import Store

UNKNOWN_AFTER_SECONDS: Final = 3.0
"""A younger run may belong to a claim that is still in progress."""
COMPARE_SECONDS: Final = 60.0
"""The interval between two comparisons with the types of other nodes."""


class Heartbeat(Loop):
    """One for each process."""

    name = "heartbeat"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        runs: OwnedRuns,
        handlers: Handlers,
        *,
        node: str,
        lease_seconds: float,
        describe: Callable[[], dict[str, object]],
        is_claiming: Callable[[], bool],
        on_released: Callable[[], None],
        claim_reserved: Callable[[], Awaitable[None]],
        defaults: Defaults,
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._runs = runs
        self._handlers = handlers
        self._announced: tuple[Handler, ...] = ()
        self.type_conflicts = TypeConflicts(node)
        self._compare_at = float("-inf")
        self._node = node
        self._lease_seconds = lease_seconds
        self._describe = describe
        self._is_claiming = is_claiming
        self._on_released = on_released
        self._claim_reserved = claim_reserved
        self.taken = TakenRuns(store)
        self._defaults = defaults
        self.lost = 0
        self._info_json = "{}"
        self.described: dict[str, object] = {}
        """The last description of the node. It is replaced, never changed: other threads may read it."""
        self.renewed_at = clock.monotonic()

    async def tick(self) -> float:
        self._runs.cancel_again()
        if self.is_looping:
            await self.guard("announcing handlers", self._announce())
        else:
            await self._announce()  # If this raises, the start fails.
        renewed = [run for run, owned in self._runs.by_id.items() if owned.is_renewed]
        if (described := self._describe()) != self.described:
            # An idle node describes itself as before, and encoding is most of what its heartbeat costs.
            self.described, self._info_json = described, dumps(described)
        now = self._store.now()
        answer = await self._store.heartbeat(
            self._node, self._info_json, renewed, self._lease_seconds
        )
        # A run whose outcome was committed during the renewal is done, not lost.
        runs = self._runs.by_id
        lost = {run for run in answer.lost if run in runs and not runs[run].has_ended}
        if lost:
            self.lost += len(lost)
            tasks = [runs[run].task for run in sorted(lost)]
            self.taken.add([runs[run] for run in sorted(lost)])
            self._runs.lose(lost)
            await self.guard("looking up what was lost", self._log_lost(tasks))
        if answer.owned:
            before = now - min(UNKNOWN_AFTER_SECONDS, renewal_interval(self._lease_seconds))
            await self.guard(
                "giving back what is unknown here", self._release(answer.owned, before)
            )
        self.renewed_at = self.clock.monotonic()
        await self.guard("acknowledging interventions", self.taken.acknowledge())
        if answer.has_reserved:
            await self.guard("claiming what is reserved", self._claim_reserved())
        await self.guard("comparing types with other nodes", self._compare())
        seconds = self._lease_seconds / (3 if answer.is_whole else 30)
        return min(seconds, UNWIND_SECONDS) if self.taken.is_unwinding else seconds

    async def _log_lost(self, tasks: Sequence[Task]) -> None:
        """Logs why leases were lost. An operator's abort or pause takes the lease too, and is no warning."""
        current = await self._store.reads.get([task.id for task in tasks])
        for task in tasks:
            outcome_log.taken(task, current.get(task.id))

    async def _announce(self) -> None:
        """Writes the types to the store, including types that were registered or changed while running."""
        handlers = tuple(self._handlers)
        if handlers != self._announced:
            rows = [
                TypeRow(h.type, h.config.queue, dumps(resolved(h.config, self._defaults)))
                for h in handlers
            ]
            await self._store.upkeep.register_types(rows, actor=self._node)
            self._announced = handlers
            self.type_conflicts.define(handlers, self._defaults)
            self._compare_at = float("-inf")

    async def _compare(self) -> None:
        now = self.clock.monotonic()
        if now >= self._compare_at:
            self.type_conflicts.compare(await self._store.reads.runners(), self._store.now())
            self._compare_at = now + COMPARE_SECONDS

    async def release_unknown(self) -> None:
        """Gives back runs that the store assigns to this node, but that the node does not own."""
        now = self._store.now()
        await self._release(await self._store.runs.owned(self._node), now)

    async def _release(self, owned: Sequence[tuple[str, int, float]], before: float) -> None:
        if self._is_claiming():
            return
        unknown = [
            Instruction(task_id, Release("the claim's answer was lost"), fence=fence)
            for task_id, fence, started_at in owned
            if RunId(task_id, fence) not in self._runs.by_id and started_at <= before
        ]
        if unknown:
            await self._store.apply(unknown, wait=False)
            self._on_released()
