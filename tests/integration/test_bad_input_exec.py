"""Wrong calls of the execution loop and the risk monitor: a typed error, nothing written, nothing sent.

Legal: any reason of a freeze. A requested freeze always happens; characters of its reason that cannot be
shown are replaced.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.orders.exchange.port import Fill, Quote
from holdfast.orders.execution.desk import Pace
from holdfast.orders.execution.loop import ExecutionLoop
from holdfast.orders.execution.risk import Limits, RiskMonitor
from holdfast.orders.model.order import Intent, Order, Side
from tests.bad_input import BAD, NAN, Surface
from tests.integration.exec_support import SYMBOL, World
from tests.integration.exec_words import RESTING
from tests.integration.test_bad_input import check_same, codes_of


class Trader:
    """The calls of a loop, with the fields of their arguments as parameters."""

    def __init__(self, loop: ExecutionLoop) -> None:
        self._loop = loop

    def place(self, symbol: Any, side: Any, qty: Any, price: Any, key: Any) -> Order:
        return self._loop.place(Intent(symbol, side, qty, price, key))

    def step(self, symbol: Any, bid: Any, ask: Any, seen_at: Any) -> None:
        self._loop.step([Quote(symbol, bid, ask, seen_at)])


TRADER = Surface(
    Trader,
    kinds={
        **dict.fromkeys(("symbol", "key"), "name"),
        "side": "side",
        **dict.fromkeys(("qty", "price"), "money"),
        **dict.fromkeys(("bid", "ask"), "amount"),
        "seen_at": "number",
    },
    good={
        "symbol": SYMBOL,
        "side": Side.BUY,
        "qty": Decimal(1),
        "price": Decimal(1),
        "key": "k",
        "bid": Decimal(1),
        "ask": Decimal(1),
        "seen_at": 1.0,
    },
)
LOOP = Surface(
    ExecutionLoop,
    kinds={"intent": "intent", "quotes": "quotes", "client_order_id": "known id"},
    good={},
    leave_out=frozenset({"freeze"}),
)
OPTIONS = SimpleNamespace(Limits=Limits, Pace=Pace, RiskMonitor=RiskMonitor)
OPTION_KINDS = {
    **dict.fromkeys(("order_notional_max", "open_notional_max", "position_notional_max"), "amount"),
    **dict.fromkeys(("open_orders_max", "unknown_orders_max", "reject_window"), "whole"),
    "reject_rate_max": "share",
    "stale_market_seconds": "number",
    "price_band": "band?",
    **dict.fromkeys(("attempts", "gone_asks", "cancel_rounds"), "whole"),
    **dict.fromkeys(("valid_seconds", "skew_seconds", "pause_seconds", "audit_seconds"), "number"),
    "gone_seconds": "number",
    "limits": "limits?",
}


class Mute:
    """An object without text."""

    def __str__(self) -> str:
        raise ValueError("no text")


async def test_a_wrong_call_of_the_loop_is_a_typed_error_and_sends_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    name = world.place("mine")
    before = world.store.orders(), list(world.exchange.calls), list(world.exchange.requests)
    check_same([await codes_of(TRADER, Trader(world.loop))])
    check_same([await codes_of(LOOP, world.loop)])
    after = world.store.orders(), list(world.exchange.calls), list(world.exchange.requests)
    assert after == before
    assert world.loop.cancel(name).client_order_id == name


async def test_a_wrong_limit_or_pace_is_a_typed_error() -> None:
    found = await codes_of(Surface(OPTIONS, OPTION_KINDS, {}), OPTIONS)
    assert [each for each in found if each[1] != "bad-config"] == []


@pytest.mark.parametrize("reason", [*BAD["text"], "", "a\nb", Mute()], ids=range(11))
def test_a_freeze_is_never_refused_for_its_reason(tmp_path: Path, reason: Any) -> None:
    world = World(tmp_path, faults=RESTING)
    world.place("mine")
    assert world.loop.freeze(reason) == 1
    assert world.store.freeze_state().reason.isprintable()
    assert world.store.open_orders() == []
    monitor = RiskMonitor()
    monitor.freeze(reason)
    assert (monitor.wish() or "\n").isprintable()


@pytest.mark.parametrize("name", BAD["name"], ids=range(len(BAD["name"])))
def test_a_message_with_an_impossible_id_stops_nothing(tmp_path: Path, name: Any) -> None:
    world = World(tmp_path, faults=RESTING)
    ours = world.place("mine")
    one = Decimal(1)
    messages = [Fill("f1", name, one, one, 1.0), Fill("f2", ours, one, one, 1.0)]
    world.simulated.fills = lambda: messages  # type: ignore[method-assign]
    world.loop.step()
    assert [order.filled_qty for order in world.store.orders()] == [1]


def test_an_impossible_quote_counts_as_none(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING, limits=Limits(price_band=Decimal("0.1")))
    wrong = Quote(SYMBOL, Decimal("NaN"), Decimal("NaN"), NAN)
    world.simulated.quote = lambda symbol: wrong  # type: ignore[method-assign]
    assert world.place("mine")
    assert world.risk.fresh(SYMBOL, world.clock.now()) is None
