"""Commands and answers for workers, from the interventions and decisions of a store.

Promises: a command is sent until it is acknowledged, and only for the fence that it names; an answer is sent
to the node that asked, as long as its task waits for a claim. Never: counts on a hint; a source without one
is asked again with each renewal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from holdfast.bus.port import FEED, Bus
from holdfast.core.intervention import AckOutcome, Intervention
from holdfast.core.worker_wire import CommandAck, CommandFrame, Decided
from holdfast.store.store import Store


class StoredCommands:
    """Implements `ports.CommandSource`."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store = store
        self._bus = bus

    async def pending(self, node: str) -> Sequence[CommandFrame | Decided]:
        now = self._store.now()
        return [_frame(row, now) for row in await self._store.interventions.deliver(node)]

    async def acknowledge(self, node: str, ack: CommandAck) -> None:
        """An outcome that this version does not have counts as a refusal, with its text as the detail."""
        known = ack.outcome in AckOutcome.__members__.values()
        outcome = AckOutcome(ack.outcome) if known else AckOutcome.REFUSED
        detail = ack.detail if known else f"{ack.outcome}: {ack.detail}"
        await self._store.interventions.acknowledge(ack.id, outcome, detail[:500], node=node)

    async def wait(self, node: str) -> None:
        """Waits for the next hint of a change."""
        changed = asyncio.Event()
        unsubscribe: Callable[[], None] = self._bus.subscribe(lambda _hint: changed.set(), FEED)
        try:
            await changed.wait()
        finally:
            unsubscribe()


def _frame(row: Intervention, now: float) -> CommandFrame:
    return CommandFrame(
        id=row.id,
        kind=row.type.value,
        task_id=row.task_id,
        fence=row.target_fence or 0,
        reason=row.reason,
        args_json=row.args_json,
        expires_ms=max(0, int((row.expires_at - now) * 1000)),
        requested_by=row.claimed_by or row.actor,
    )
