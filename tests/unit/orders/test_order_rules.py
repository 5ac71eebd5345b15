"""The rules of orders and money, for every possible order and every possible report."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from holdfast.errors import IllegalTransition
from holdfast.orders.errors import InvalidOrder, OverFill
from holdfast.orders.model import rules
from holdfast.orders.model.money import DIGITS_MAX, PLACES_MAX, positive
from holdfast.orders.model.order import (
    OPEN_STATES,
    TERMINAL,
    TRANSITIONS,
    Order,
    OrderState,
    Side,
    order_from_json,
    order_json,
)

amounts = st.decimals(
    min_value=Decimal("1e-6"), max_value=Decimal(1000), places=6, allow_nan=False
).filter(lambda number: number > 0)
moves = st.sampled_from(OrderState)
fills = st.tuples(amounts, amounts)
said = st.lists(st.one_of(moves, fills), max_size=12)


def new(qty: Decimal = Decimal(10)) -> Order:
    return Order(
        client_order_id="hf-1",
        symbol="BTCUSDT",
        side=Side.BUY,
        qty=positive(qty, "qty"),
        price=Decimal(5),
        state=OrderState.PENDING,
        created_at=1.0,
        updated_at=1.0,
    )


def heard(order: Order, what: OrderState | tuple[Decimal, Decimal], now: float) -> Order:
    """The order after one report; refusals leave it as it is."""
    try:
        if isinstance(what, OrderState):
            return rules.moved(order, what, now) or order
        qty, average = (positive(each, "amount") for each in what)
        return rules.filled(order, qty, average, now) or order
    except (IllegalTransition, InvalidOrder, OverFill):
        return order


@given(amounts, said)
def test_an_order_stays_consistent_after_any_reports(
    qty: Decimal, reports: list[OrderState | tuple[Decimal, Decimal]]
) -> None:
    order = new(qty)
    for now, report in enumerate(reports, 2):
        after = heard(order, report, float(now))
        rules.check_consistent(after)
        assert order.filled_qty <= after.filled_qty <= after.qty
        assert after.state is order.state or after.state in TRANSITIONS[order.state]
        assert after.version == order.version + (after != order)
        assert rules.asked(after) == rules.asked(order)
        assert after.updated_at >= order.updated_at
        assert order_from_json(order_json(after)) == after
        order = after
    assert rules.as_placed(order) == new(qty)


@given(st.lists(fills, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_fill_reports_does_not_matter(
    reports: list[tuple[Decimal, Decimal]], random: object
) -> None:
    """Each report is the total so far, so the largest wins, however often and late the others come."""
    price = Decimal("2.5")
    fills = [(min(qty, Decimal(10)), price) for qty, _ in reports]
    shuffled = list(fills)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    ends = set()
    for each in (fills, shuffled, sorted(fills, reverse=True)):
        order = new()
        for report in [*each, *each]:
            order = heard(order, report, 2.0)
        ends.add((order.filled_qty, order.avg_fill_price, order.state))
    assert len(ends) == 1


def test_the_transition_table_is_complete() -> None:
    assert set(TRANSITIONS) == set(OrderState)
    assert {OrderState.FILLED, OrderState.CANCELED, OrderState.REJECTED} == TERMINAL
    assert set(OrderState) - TERMINAL == OPEN_STATES
    for state, nexts in TRANSITIONS.items():
        assert state not in nexts
        assert OrderState.PENDING not in nexts


@given(st.text(max_size=30), st.text(max_size=30))
def test_ids_are_derived_from_keys_and_fit_every_exchange(one: str, other: str) -> None:
    name = rules.client_order_id("", one)
    assert name == rules.client_order_id("", one)
    assert (name == rules.client_order_id("", other)) == (one == other)
    assert name != rules.client_order_id("desk-2", one)
    assert len(name) <= 36
    assert name.replace("-", "").isalnum()


def test_ids_never_change_between_versions() -> None:
    """An order of last year must still be found at the exchange."""
    assert rules.client_order_id("", "k") == "hf-f947eff05e09b55d1be8a74041a7c721"


@given(st.decimals(allow_nan=True, allow_infinity=True))
def test_money_is_exact_or_refused(number: Decimal) -> None:
    try:
        kept = positive(number, "qty")
    except InvalidOrder:
        is_fine = number.is_finite() and number > 0
        fits = is_fine and (
            number.adjusted() < DIGITS_MAX - PLACES_MAX
            and -int(number.normalize().as_tuple().exponent) <= PLACES_MAX
            and len(number.as_tuple().digits) <= 28
        )
        assert not fits
        return
    assert kept == number
    # One amount has one text, however it was written.
    assert str(positive(format(number, "f"), "qty")) == str(positive(str(kept), "qty")) == str(kept)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_float_is_taken_as_it_reads_or_refused(number: float) -> None:
    try:
        kept = positive(number, "qty")
    except InvalidOrder:
        return
    assert kept == Decimal(repr(number))
    assert float(kept) == number


@given(st.text(max_size=20))
def test_text_is_a_number_or_a_typed_error(text: str) -> None:
    try:
        assert positive(text, "qty") > 0
    except InvalidOrder:
        return


@pytest.mark.parametrize("value", [None, True, [], {}, b"1", 1j])
def test_values_that_are_not_numbers_are_refused(value: object) -> None:
    with pytest.raises(InvalidOrder):
        positive(value, "qty")  # type: ignore[arg-type]
