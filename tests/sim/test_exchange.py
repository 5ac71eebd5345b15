"""The simulated exchange: what its adapter promises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from holdfast.orders.errors import ExchangeTimeout
from holdfast.orders.exchange.port import ExchangeOrder, Request
from holdfast.orders.execution.desk import Pace
from holdfast.sim.blocking_thread import BlockingThread
from holdfast.sim.campaign import Options
from holdfast.sim.draw import Draw
from holdfast.sim.orders.exchange import DENIED, DENIED_MAX, RemoteExchange, Server
from holdfast.sim.orders.trader import Trader
from holdfast.sim.world import World

T = TypeVar("T")


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


class Silent(BlockingThread):
    """The exchange does not answer."""

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        raise TimeoutError


class Denying(Draw):
    """The exchange denies whenever it may."""

    def chance(self, probability: float) -> bool:
        return probability == DENIED


def test_lost_answers_between_denials_do_not_count_as_answers() -> None:
    """An accepted order that stays unknown for `gone_asks` lookups counts as gone, so the exchange may deny
    it less often than that before the trader hears of it again."""
    assert Pace().gone_asks > DENIED_MAX
    world = World(Options(hours=0.05, changes=(("traders", "files"), ("faults", ""))).plan(3))
    trader = next(part for part in world.subsystems if isinstance(part, Trader))
    is_calm = False  # A calm exchange denies nothing.
    exchange = RemoteExchange(
        *(trader.server, trader.node, Silent()),
        draw=Denying(3, "mood"),
        store_now=trader.node.clock.now,
        is_accepted=lambda _: True,
        is_calm=lambda: is_calm,
    )
    for _ in range(DENIED_MAX):
        assert exchange.find("hf-1") is None
        is_calm = True
        with pytest.raises(ExchangeTimeout):
            exchange.find("hf-1")
        is_calm = False
    with pytest.raises(ExchangeTimeout):
        exchange.find("hf-1")
    trader.end()
