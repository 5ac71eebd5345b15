"""The loops of the fleet that are about no single job: ends of blocks, webhooks, retention.

Promises: several processes may run them at once: each step is a transaction that one of them makes.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from holdfast.bus.port import FEED, Bus
from holdfast.clock import Clock
from holdfast.core.redaction import DEFAULT, Redaction
from holdfast.engine.loop import Loop
from holdfast.engine.supervisor import Supervisor
from holdfast.fleet.blocks.blocks import BlockLoop
from holdfast.fleet.fleet import Fleet
from holdfast.fleet.retention import FleetPruning, PruningLoop
from holdfast.fleet.webhooks.feed import WebhookFeed
from holdfast.fleet.webhooks.http import WebhookHttp
from holdfast.fleet.webhooks.sender import WebhookSender
from holdfast.store.backends import secret_ids
from holdfast.store.store import Store

PACE_SECONDS: Final = 0.1
"""The least time between two looks at the feed because of hints."""
log: Final = logging.getLogger("holdfast.fleet")


class FleetUpkeep:
    """The loops of one process."""

    def __init__(
        self, fleet: Fleet, store: Store, clock: Clock, bus: Bus, *, redaction: Redaction = DEFAULT
    ) -> None:
        self._clock = clock
        self._bus = bus
        self._rules = fleet.parts.addresses
        self._store = store
        self._meter = fleet.meter
        self.blocks = BlockLoop(fleet.blocks, store, clock)
        self.pruning = PruningLoop(FleetPruning(store, fleet.parts.keep), clock)
        self.feed = WebhookFeed(store, clock, redaction)
        self._hinted_at = 0.0

    def _hint(self, _text: str) -> None:
        """On a change of the feed. Hints that come close together, or while there is no endpoint, are left
        out: the feed is looked at once a second anyway."""
        now = self._clock.monotonic()
        if self.feed.has_endpoints and now - self._hinted_at >= PACE_SECONDS:
            self._hinted_at = now
            self.feed.wake()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the loops in the background."""
        http = WebhookHttp(self._rules)
        owner = f"webhooks-{secret_ids().token()}"
        sender = WebhookSender(self._store, http, self._clock, owner=owner, meter=self._meter)
        self.feed.on_added = sender.wake
        leave = self._bus.subscribe(self._hint, FEED)
        supervisor = Supervisor(self._clock, lambda failure: log.critical("%s", failure))
        loops: tuple[Loop, ...] = (self.blocks, self.pruning, self.feed, sender)
        for loop in loops:
            supervisor.start(loop.name, loop.run)
        try:
            yield
        finally:
            leave()
            await supervisor.stop()
            await http.close()
