"""Metrics of the hub: conflicts, interventions, decisions, the lag of nodes, hints, the build.

Promises: what is counted was done by this process; gauges and the lag are of the whole store. The lag is
sampled every `SAMPLE_SECONDS`, gauges are read at a scrape. Never: a task, node or person as a label.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from holdfast import __version__
from holdfast.bus.port import Bus
from holdfast.clock import Clock
from holdfast.core.decision import Decision, DecisionState
from holdfast.core.exchange.item import Item
from holdfast.core.exchange.item_wire import InvalidItem
from holdfast.core.hub_rules import RULES
from holdfast.core.intervention import Intervention, InterventionState
from holdfast.engine.meters import LATE, count_hint, describe_build
from holdfast.errors import HoldfastError
from holdfast.metrics import Family, Kind, Metrics
from holdfast.store.store import Store
from holdfast.sync.exchange.push_state import ItemResult
from holdfast.sync.lag import read_lags

SAMPLE_SECONDS: Final = 10.0
CONFLICTS: Final = "holdfast_sync_conflicts_total"
LAG_SECONDS: Final = "holdfast_sync_lag_seconds"
LAG_EVENTS: Final = "holdfast_sync_lag_events"
INTERVENTIONS: Final = "holdfast_interventions_total"
INTERVENTION_SECONDS: Final = "holdfast_intervention_seconds"
DECISIONS_OPEN: Final = "holdfast_decisions_open"
DECISION_SECONDS: Final = "holdfast_decision_seconds"
LONG_BUCKETS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
"""For people, and for nodes that are offline."""
EVENT_BUCKETS: Final = (0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0)
FAMILIES: Final = (
    Family(
        CONFLICTS,
        Kind.COUNTER,
        "Pushed items that met a conflict, by what they change: status, progress or content.",
        ("state_type", "resolution"),
    ),
    Family(
        LAG_SECONDS,
        Kind.HISTOGRAM,
        "How old the first event is that a live node has not read; each node every 10 s.",
        ("kind",),
        LONG_BUCKETS,
    ),
    Family(
        LAG_EVENTS,
        Kind.HISTOGRAM,
        "How many events a live node has not read; each node every 10 s.",
        ("kind",),
        EVENT_BUCKETS,
    ),
    Family(
        INTERVENTIONS,
        Kind.COUNTER,
        "Interventions by the state that they came to in this process: issued, applied, refused, expired.",
        ("type", "state"),
    ),
    Family(
        INTERVENTION_SECONDS,
        Kind.HISTOGRAM,
        "From the issue of an intervention to its end.",
        ("type", "state"),
        LONG_BUCKETS,
    ),
    Family(DECISIONS_OPEN, Kind.GAUGE, "Questions of tasks that wait for a person."),
    Family(
        DECISION_SECONDS,
        Kind.HISTOGRAM,
        "From a question to its answer or deadline.",
        ("outcome",),
        LONG_BUCKETS,
    ),
)
_CLEAN: Final = "PLUGIN_WINS"


class HubFigures:
    """Reports what a gateway does. `running` samples while the server runs."""

    def __init__(self, metrics: Metrics, store: Store, bus: Bus, clock: Clock) -> None:
        self._metrics = metrics
        self._store = store
        self._bus = bus
        self._clock = clock
        self.rules = RULES
        """When a node counts as live."""
        store.watch.intervention_stepped = self._intervened
        store.watch.decision_ended = self._decided
        describe_build(metrics, __version__, "sqlite" if store.one_writer else "postgres")

    def pushed(self, items: Sequence[Item | InvalidItem], results: Sequence[ItemResult]) -> None:
        """Counts the items of a push that did not just win."""
        for item, result in zip(items, results, strict=True):
            if result.late:
                self._metrics.count(LATE, kind="plugin")
            if isinstance(item, InvalidItem) or result.duplicate:
                continue
            if result.resolution in (None, _CLEAN):
                continue
            labels = {"state_type": _asked(item), "resolution": result.resolution}
            self._metrics.count(CONFLICTS, **labels)

    async def scrape(self) -> None:
        """Sets the gauges of the store."""
        self._metrics.gauge(DECISIONS_OPEN, await self._store.decisions.count_open())

    async def sample(self) -> None:
        """Observes the lag of every live node."""
        for kind, events, seconds in await read_lags(self._store, self.rules):
            self._metrics.observe(LAG_EVENTS, events, kind=kind)
            self._metrics.observe(LAG_SECONDS, seconds, kind=kind)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        end = self._bus.subscribe(self._hinted)
        sampling = asyncio.create_task(self._sample_always(), name="holdfast-figures")
        try:
            yield
        finally:
            end()
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling

    async def _sample_always(self) -> None:
        while True:
            await self._clock.sleep(SAMPLE_SECONDS)
            with suppress(HoldfastError):  # the store is away: the next sample may succeed
                await self.sample()

    def _hinted(self, hint: str) -> None:
        count_hint(self._metrics, hint)

    def _intervened(self, row: Intervention) -> None:
        labels = {"type": row.type.value, "state": row.state.value}
        self._metrics.count(INTERVENTIONS, **labels)
        if row.ended_at is not None and row.state is not InterventionState.ISSUED:
            self._metrics.observe(
                INTERVENTION_SECONDS, max(0.0, row.ended_at - row.issued_at), **labels
            )

    def _decided(self, decision: Decision) -> None:
        at_deadline = decision.by == "deadline" and decision.state is DecisionState.DECIDED
        outcome = "default" if at_deadline else decision.state.value
        seconds = max(0.0, (decision.at or decision.created_at) - decision.created_at)
        self._metrics.observe(DECISION_SECONDS, seconds, outcome=outcome)


def _asked(item: Item) -> str:
    if item.status is not None:
        return "status"
    has_observed = any(
        value is not None for value in (item.progress, item.phase, item.iteration)
    ) or bool(item.metrics)
    return "progress" if has_observed else "content"
