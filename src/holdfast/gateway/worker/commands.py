"""Commands and answers for workers, from the interventions and decisions of a store.

Promises: a command is sent until it is acknowledged, and only for the fence that it names; an answer is sent
to the node that asked, as long as its task waits for a claim. A command that is issued between a read and
`wait` ends the wait. Never: counts on a hint; a source without one is asked again with each renewal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from holdfast.core.decision import Decision
from holdfast.core.intervention import AckOutcome, Intervention
from holdfast.core.speaking import Voice
from holdfast.core.worker.wire import CommandAck, CommandFrame, Decided
from holdfast.gateway.worker.ports import Listen
from holdfast.metrics import Meter, NullMeter
from holdfast.store.store import Store
from holdfast.sync.speaking import heard

LATENCY: Final = "holdfast_sync_latency_seconds"
_LABELS: Final = {"source": "operator", "target": "worker", "state_type": "critical"}


class StoredCommands:
    """Implements `ports.CommandSource`."""

    def __init__(self, store: Store, listen: Listen, meter: Meter | None = None) -> None:
        """`listen`: news of interventions and decisions."""
        self._store = store
        self._meter: Meter = NullMeter() if meter is None else meter
        self._news = 0
        self._changed = asyncio.Event()
        self._read: dict[str, int] = {}
        """For each node: the news that its last read has seen."""
        self.close = listen(self._wake)

    async def pending(self, node: str) -> Sequence[CommandFrame | Decided]:
        self._read[node] = self._news
        now = self._store.now()
        rows = await self._store.interventions.deliver(node)
        for row in rows:
            if row.delivered_at is not None and row.delivered_at >= now:  # for the first time
                seconds = max(0.0, row.delivered_at - row.issued_at)
                self._meter.observe(LATENCY, seconds, **_LABELS)
        answers = await self._store.decisions.answers_for(node)
        return [*(_frame(row, now) for row in rows), *map(_decided, answers)]

    async def acknowledge(self, voice: Voice, ack: CommandAck) -> None:
        """An outcome that this version does not have counts as a refusal, with its text as the detail."""
        known = ack.outcome in AckOutcome.__members__.values()
        outcome = AckOutcome(ack.outcome) if known else AckOutcome.REFUSED
        detail = ack.detail if known else f"{ack.outcome}: {ack.detail}"
        await self._store.interventions.acknowledge(
            ack.id, outcome, detail[:500], node=voice.node, guard=lambda: heard(voice)
        )

    async def wait(self, node: str) -> None:
        try:
            while self._news == self._read.get(node, self._news):
                await self._changed.wait()
        finally:
            self._read.pop(node, None)

    def _wake(self) -> None:
        self._news += 1
        self._changed.set()
        self._changed = asyncio.Event()


def _frame(row: Intervention, now: float) -> CommandFrame:
    return CommandFrame(
        id=row.id,
        kind=row.type.value,
        task_id=row.task_id,
        fence=row.target_fence or 0,
        reason=row.reason,
        args_json=row.args_json,
        expires_ms=max(0, int((row.expires_at - now) * 1000)),
        requested_by=row.requested_by or row.actor,
    )


def _decided(decision: Decision) -> Decided:
    return Decided(
        task_id=decision.task_id,
        decision_id=decision.id,
        choice_json=decision.choice_json or "",
        by=decision.by,
    )
