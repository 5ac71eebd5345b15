"""The rules of the execution loop: limits, exposure, differences, reports."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.orders.exchange.port import ExchangeOrder, ExchangeState, Quote
from holdfast.orders.execution.exposure import Exposure
from holdfast.orders.execution.reconcile import Kind, compare
from holdfast.orders.execution.report import order_row, positions, stats_of, text, to_bytes
from holdfast.orders.execution.risk import Limits, RiskMonitor, breach, refusal
from holdfast.orders.model.order import (
    OPEN_STATES,
    ZERO,
    FreezeState,
    Intent,
    Order,
    OrderState,
    Side,
)

S = OrderState
NOW = 1_000.0


def order(name: str = "a", state: OrderState = S.OPEN, **more: object) -> Order:
    fields: dict[str, object] = {
        "symbol": "BTCUSDT",
        "side": Side.BUY,
        "qty": Decimal(10),
        "price": Decimal(100),
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Order(client_order_id=name, state=state, **(fields | more))  # type: ignore[arg-type]


def theirs(name: str, state: ExchangeState, filled: int = 0) -> ExchangeOrder:
    return ExchangeOrder(
        name, "BTCUSDT", Side.BUY, Decimal(10), Decimal(100), state, Decimal(filled), Decimal(100)
    )


def intent(qty: int, price: int = 100, side: Side = Side.BUY) -> Intent:
    return Intent("BTCUSDT", side, Decimal(qty), Decimal(price), "k")


def quote(ask: int = 100, seen_at: float = NOW) -> Quote:
    return Quote("BTCUSDT", Decimal(ask - 1), Decimal(ask), seen_at)


# -- which order is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "qty", "word"),
    [
        (Limits(order_notional_max=Decimal(499)), 5, "order_notional_max 499"),
        (Limits(open_notional_max=Decimal(1499)), 5, "open_notional_max 1499"),
        (Limits(open_orders_max=1), 5, "open_orders_max is 1"),
        (Limits(position_notional_max=Decimal(1499)), 5, "position_notional_max 1499"),
    ],
)
def test_an_order_is_refused_by_the_limit_that_it_would_break(
    limits: Limits, qty: int, word: str
) -> None:
    exposure = Exposure([order()])
    why = refusal(limits, exposure, intent(qty), {}, None)
    assert why is not None
    assert word in why


@pytest.mark.parametrize(
    "limits",
    [
        Limits(order_notional_max=Decimal(500)),
        Limits(open_notional_max=Decimal(1500)),
        Limits(open_orders_max=2),
        Limits(position_notional_max=Decimal(1500)),
    ],
)
def test_a_limit_is_the_largest_allowed_value(limits: Limits) -> None:
    assert refusal(limits, Exposure([order()]), intent(5), {}, None) is None


def test_an_order_that_makes_the_position_smaller_is_not_refused_for_it() -> None:
    held = Exposure([order(state=S.FILLED, filled_qty=Decimal(10))])
    limits = Limits(position_notional_max=Decimal(1000))
    mark = Decimal(100)
    assert refusal(limits, held, intent(1), {}, mark) is not None
    assert refusal(limits, held, intent(10, side=Side.SELL), {}, mark) is None


def test_a_sell_is_judged_at_the_market_when_its_limit_is_below_it() -> None:
    cheap = intent(99_000, 1, Side.SELL)
    why = refusal(Limits(), Exposure(), cheap, {}, Decimal("791.84"))
    assert why == "its notional 78392160.00 is over order_notional_max 100000"
    small = Limits(order_notional_max=Decimal(10**9), open_notional_max=Decimal(10**9))
    assert "could become 78392160.00" in str(
        refusal(small, Exposure(), cheap, {}, Decimal("791.84"))
    )
    assert refusal(Limits(), Exposure(), intent(1, 101, Side.SELL), {}, Decimal(100)) is None


def test_a_sell_without_a_fresh_quote_is_refused_unless_a_band_bounds_it() -> None:
    sell = intent(5, 90, Side.SELL)
    assert "no fresh quote of BTCUSDT" in str(refusal(Limits(), Exposure(), sell, {}, None))
    band = Limits(price_band=Decimal("0.1"), order_notional_max=Decimal(500))
    assert refusal(band, Exposure(), sell, {}, None) is None
    assert "its notional" in str(refusal(band, Exposure(), intent(6, 90, Side.SELL), {}, None))


def test_positions_and_open_orders_are_valued_at_the_market() -> None:
    marks = {"BTCUSDT": Decimal(200)}
    held = Exposure([order(state=S.FILLED, filled_qty=Decimal(10))])
    limits = Limits(position_notional_max=Decimal(2000))
    assert refusal(limits, held, intent(1, 1), {}, None) is None
    assert "could become 2200" in str(refusal(limits, held, intent(1, 1), marks, Decimal(200)))
    waiting = Exposure([order(side=Side.SELL)])
    limits = Limits(open_notional_max=Decimal(1999))
    assert breach(limits, waiting, [], {}, NOW) is None
    assert breach(limits, waiting, [], marks, NOW) == "2000 open, open_notional_max is 1999"


def test_a_quote_goes_stale_and_an_older_one_does_not_replace_it() -> None:
    monitor = RiskMonitor(Limits(stale_market_seconds=30))
    assert monitor.fresh("BTCUSDT", NOW) is None
    monitor.quoted(quote(120, NOW))
    monitor.quoted(quote(110, NOW - 1))
    assert monitor.fresh("BTCUSDT", NOW + 30) == 120
    assert monitor.fresh("BTCUSDT", NOW + 31) is None


# -- what stops trading -------------------------------------------------------------------------------


def test_no_limit_is_broken_within_the_limits() -> None:
    limits = Limits(
        open_notional_max=Decimal(1000),
        open_orders_max=1,
        position_notional_max=Decimal(1000),
        stale_market_seconds=30,
    )
    orders = [order("a"), order("b", S.FILLED, filled_qty=Decimal(10))]
    assert breach(limits, Exposure(orders), [quote(seen_at=NOW - 30)], {}, NOW) is None


@pytest.mark.parametrize(
    ("limits", "market", "word"),
    [
        (Limits(open_orders_max=0), quote(), "open_orders_max is 0"),
        (Limits(open_notional_max=Decimal(999)), quote(), "open_notional_max is 999"),
        (Limits(position_notional_max=Decimal(1000)), quote(101), "is worth 1010"),
        (Limits(), quote(seen_at=NOW - 31), "silent for 31.0 s"),
    ],
)
def test_a_broken_limit_is_named(limits: Limits, market: Quote, word: str) -> None:
    orders = [order("a"), order("b", S.FILLED, filled_qty=Decimal(10))]
    why = breach(limits, Exposure(orders), [market], {}, NOW)
    assert why is not None
    assert word in why


def test_the_reject_rate_is_judged_over_a_full_window() -> None:
    monitor = RiskMonitor(Limits(reject_window=4, reject_rate_max=0.5))
    for rejected in (True, True, True):
        monitor.heard(rejected=rejected)
    assert monitor.tripped(Exposure(), [], NOW) is None
    monitor.heard(rejected=False)
    assert monitor.tripped(Exposure(), [], NOW) == (
        "75% of the last 4 orders were rejected, reject_rate_max is 50%"
    )
    monitor.heard(rejected=False)
    assert monitor.tripped(Exposure(), [], NOW) is None


def test_a_freeze_from_another_thread_refuses_at_once_and_outlives_a_thaw() -> None:
    monitor = RiskMonitor()
    monitor.freeze("a person says stop \udcff\n")
    why = monitor.refusal(Exposure(), intent(1), NOW)
    assert why == "a freeze was asked for (a person says stop \ufffd\ufffd)"
    assert monitor.tripped(Exposure(), [], NOW) is not None
    monitor.freeze("again, after it")
    monitor.thaw()
    assert monitor.wish() == "again, after it"
    assert monitor.tripped(Exposure(), [], NOW) == "again, after it"
    monitor.thaw()
    assert monitor.refusal(Exposure(), intent(1), NOW) is None


def test_thawing_clears_the_causes_of_the_freeze() -> None:
    monitor = RiskMonitor(Limits(reject_window=1))
    monitor.freeze("lunch")
    monitor.heard(rejected=True)
    monitor.unknown(1)
    assert monitor.tripped(Exposure(), [], NOW) == "lunch"
    monitor.thaw()
    assert monitor.tripped(Exposure(), [], NOW) is None
    monitor.unknown(1)
    assert monitor.tripped(Exposure(), [], NOW) == "1 orders at the exchange are not in our store"


# -- exposure -----------------------------------------------------------------------------------------


changes = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(list(OrderState)),
        st.integers(0, 10),
    ),
    max_size=30,
)


@given(changes)
def test_exposure_is_the_sum_over_the_latest_form_of_each_order(
    history: list[tuple[str, OrderState, int]],
) -> None:
    running = Exposure()
    latest: dict[str, Order] = {}
    for name, state, filled in history:
        side = Side.BUY if name in "ab" else Side.SELL
        latest[name] = order(name, state, side=side, filled_qty=Decimal(filled))
        running.put(latest[name])
    holding = running.holding("BTCUSDT")
    signs = {name: 1 if each.side is Side.BUY else -1 for name, each in latest.items()}
    assert holding.position == sum(signs[n] * o.filled_qty for n, o in latest.items())
    rest = {n: o.remaining_qty for n, o in latest.items() if o.state in OPEN_STATES}
    assert holding.open_buys == sum((q for n, q in rest.items() if signs[n] > 0), ZERO)
    assert holding.open_sells == sum((q for n, q in rest.items() if signs[n] < 0), ZERO)
    assert running.open_notional({}) == 100 * sum(rest.values(), ZERO)
    assert running.open_orders == len(rest)


# -- differences --------------------------------------------------------------------------------------

E = ExchangeState


@pytest.mark.parametrize(
    ("ours", "seen", "kinds"),
    [
        (order(state=S.OPEN), theirs("a", E.OPEN), []),
        (order(state=S.PENDING), theirs("a", E.OPEN), [Kind.ARRIVED]),
        (order(state=S.PENDING), None, [Kind.NEVER_ARRIVED]),
        (order(state=S.CANCEL_PENDING, version=2), None, [Kind.NEVER_ARRIVED]),
        (order(state=S.CANCEL_PENDING, version=3), None, [Kind.GONE]),
        (order(state=S.OPEN), theirs("a", E.FILLED, 9), [Kind.FILLED, Kind.FILLED_SHORT]),
        (order(state=S.CANCELED, filled_qty=Decimal(9)), theirs("a", E.FILLED, 9), []),
        (order(state=S.CANCEL_PENDING, filled_qty=Decimal(1)), None, [Kind.GONE]),
        (order(state=S.OPEN), None, [Kind.GONE]),
        (order(state=S.OPEN), theirs("a", E.OPEN, 4), [Kind.FILLED]),
        (order(state=S.OPEN), theirs("a", E.FILLED, 10), [Kind.FILLED]),
        (order(state=S.OPEN), theirs("a", E.CANCELED, 4), [Kind.FILLED, Kind.CANCELED]),
        (order(state=S.PENDING), theirs("a", E.REJECTED), [Kind.REJECTED]),
        (order(state=S.CANCEL_PENDING), theirs("a", E.OPEN), [Kind.CANCEL_UNDONE]),
        (order(state=S.CANCELED), theirs("a", E.OPEN), [Kind.OPEN_THERE]),
        (order(state=S.CANCELED), None, []),
        (order(state=S.REJECTED), theirs("a", E.REJECTED), []),
        (
            order(state=S.PARTIALLY_FILLED, filled_qty=Decimal(6)),
            theirs("a", E.OPEN, 4),
            [Kind.FILLED_LESS],
        ),
    ],
)
def test_every_difference_is_reported(
    ours: Order, seen: ExchangeOrder | None, kinds: list[Kind]
) -> None:
    found = compare([ours], [] if seen is None else [seen])
    assert [each.kind for each in found] == kinds


def test_unknown_orders_come_last() -> None:
    found = compare([order("a"), order("b")], [theirs("x", E.OPEN), theirs("b", E.OPEN)])
    assert [(each.kind, each.client_order_id) for each in found] == [
        (Kind.GONE, "a"),
        (Kind.UNKNOWN_TO_US, "x"),
    ]


# -- reports ------------------------------------------------------------------------------------------


def test_statistics_are_counted_from_the_orders() -> None:
    orders = [order(str(n), state) for n, state in enumerate(OrderState)]
    found = stats_of(orders, FreezeState(epoch=3))
    assert (found.orders_placed, found.orders_open, found.freeze_events) == (7, 4, 3)
    assert (found.orders_filled, found.orders_canceled, found.orders_rejected) == (1, 1, 1)


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-1000, max_value=1000)
)
def test_equal_amounts_have_equal_text(amount: Decimal) -> None:
    assert Decimal(text(amount)) == amount
    assert text(amount * Decimal("1.0000")) == text(amount)
    assert "E" not in text(amount)


def test_a_report_is_canonical() -> None:
    row = order_row(order(price=Decimal("1E+2"), avg_fill_price=Decimal("99.50")))
    same = order_row(replace(order(price=Decimal(100)), avg_fill_price=Decimal("99.5")))
    assert to_bytes(row) == to_bytes(dict(reversed(same.items())))
    assert json.loads(to_bytes(row))["price"] == "100"
    assert to_bytes(row).endswith(b"}\n")
    assert positions(
        [order(filled_qty=Decimal(3)), order(side=Side.SELL, filled_qty=Decimal(3))]
    ) == {"BTCUSDT": "0"}
