"""The simulated exchange: what its adapter promises."""

from __future__ import annotations

import pytest

from holdfast.orders.exchange.port import ExchangeOrder, Request
from holdfast.orders.execution.desk import Pace
from holdfast.sim.campaign import Options
from holdfast.sim.orders.exchange import Server
from holdfast.sim.orders.trader import Trader
from holdfast.sim.world import World


@pytest.mark.parametrize("offset", [-29.0, 0.0, 29.0])
def test_a_request_is_valid_for_as_long_by_the_exchanges_clock(
    monkeypatch: pytest.MonkeyPatch, offset: float
) -> None:
    """A clock of the trader that is ahead would otherwise prolong it; kept seed 1006490."""
    changes = (("traders", "files"), ("faults", ""))
    world = World(Options(hours=0.05, changes=changes).plan(3))
    trader = next(part for part in world.subsystems if isinstance(part, Trader))
    trader.node.clock.offset = offset
    left_seconds: list[float] = []
    act = Server.act

    def acting(server: Server, order: str, place: Request | None) -> ExchangeOrder | None:
        if place is not None:
            left_seconds.append(place.valid_until - server.estimated_now())
        return act(server, order, place)

    monkeypatch.setattr(Server, "act", acting)
    world.run()
    valid_seconds = Pace().valid_seconds
    assert left_seconds
    assert all(valid_seconds - 1.0 < left <= valid_seconds for left in left_seconds)
