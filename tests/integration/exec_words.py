"""Behaviours of an exchange, and the states of its orders."""

from __future__ import annotations

from typing import Any

from holdfast.orders.exchange.faults import Faults
from tests.integration.exec_support import World

STAY: Any = {"partial_fills": 0.0, "resting": 1.0}

RESTING = Faults(**STAY)
"""Orders stay open until they are cancelled."""

FILLING = Faults(partial_fills=0.0, resting=0.0, fill_max_ms=1_000.0)

HALVES = Faults(partial_fills=1.0, resting=1.0, fill_max_ms=200.0)

LATE = Faults(partial_fills=0.0, resting=1.0, late_requests=1.0, late_max_ms=3_000.0)


def states(world: World) -> list[str]:
    return [order.state.value for order in world.store.orders()]
