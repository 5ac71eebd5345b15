"""An exchange that changes its reports, lags, rounds and fails: no report is lost, no order is left open."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from msgspec.structs import replace

from holdfast.clock import VirtualClock
from holdfast.errors import Conflict
from holdfast.orders.errors import ExchangeFailed, OrdersFrozen, RiskRefused
from holdfast.orders.exchange.port import ExchangeOrder, ExchangeState, Fill, Quote, Request
from holdfast.orders.execution.alerts import Alert
from holdfast.orders.execution.loop import ExecutionLoop
from holdfast.orders.execution.reconcile import Kind
from holdfast.orders.execution.risk import RiskMonitor
from holdfast.orders.model.memory import InMemoryOrderStore
from holdfast.orders.model.order import Intent, Order, OrderState, Side

E, S = ExchangeState, OrderState


class Moody:
    """An exchange that the test controls: `book` is its state; `breaks` is what a call raises."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.book: dict[str, ExchangeOrder] = {}
        self.hidden: dict[str, int] = {}
        """Orders that it does not know for a number of lookups."""
        self.breaks: dict[tuple[str, str], Exception] = {}
        self.bid = Decimal(100)
        self.inbox: list[Fill] = []

    def place(self, request: Request) -> ExchangeOrder:
        self._raise("place", request.client_order_id)
        order = ExchangeOrder(
            *(request.client_order_id, request.symbol, request.side, request.qty, request.price),
            *(E.OPEN, Decimal(0), Decimal(0)),
        )
        return self.book.setdefault(request.client_order_id, order)

    def cancel(self, client_order_id: str) -> ExchangeOrder | None:
        self._raise("cancel", client_order_id)
        if self._is_hidden(client_order_id):
            return None
        if self.book[client_order_id].is_open:
            self.says(client_order_id, state=E.CANCELED)
        return self.book[client_order_id]

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        self._raise("find", client_order_id)
        return None if self._is_hidden(client_order_id) else self.book[client_order_id]

    def orders(self) -> list[ExchangeOrder]:
        self._raise("orders", "")
        return [each for name, each in self.book.items() if not self._is_hidden(name)]

    def fills(self) -> list[Fill]:
        self._raise("fills", "")
        come, self.inbox = self.inbox, []
        return come

    def quote(self, symbol: str) -> Quote:
        self._raise("quote", symbol)
        return Quote(symbol, self.bid, self.bid + 1, self._clock.now())

    def says(self, name: str, **changes: object) -> None:
        self.book[name] = replace(self.book[name], **changes)

    def _is_hidden(self, name: str) -> bool:
        left = self.hidden.get(name, 0)
        self.hidden[name] = left - 1
        return left > 0 or name not in self.book

    def _raise(self, call: str, name: str) -> None:
        for key in ((call, name), (call, "")):
            if key in self.breaks:
                raise self.breaks[key]


class Desk:
    """A loop on that exchange."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.exchange = Moody(self.clock)
        self.store = InMemoryOrderStore(self.clock.now)
        self.risk = RiskMonitor()
        self.alerts: list[Alert] = []
        self.loop = self.restarted()

    def restarted(self) -> ExecutionLoop:
        self.loop = ExecutionLoop(
            exchange=self.exchange,
            order_store=self.store,
            risk_monitor=self.risk,
            clock=self.clock,
            on_alert=self.alerts.append,
        )
        return self.loop

    def place(self, key: str, qty: str = "1", side: Side = Side.BUY, price: int = 100) -> str:
        wish = Intent("BTCUSDT", side, Decimal(qty), Decimal(price), key)
        return self.loop.place(wish).client_order_id

    def step(self, seconds: float = 6.0) -> None:
        self.clock.pause(seconds)
        self.loop.step([self.exchange.quote("BTCUSDT")])

    def order(self, name: str) -> Order:
        found = self.store.get(name)
        assert found is not None
        return found

    def state(self, name: str) -> OrderState:
        return self.order(name).state

    @property
    def reason(self) -> str:
        state = self.store.freeze_state()
        return state.reason if state.frozen else ""


@pytest.fixture
def desk() -> Desk:
    return Desk()


# -- changed reports
# ----------------------------------------------------------------------------------


def test_an_accepted_order_may_be_rejected_later(desk: Desk) -> None:
    first, second = desk.place("1"), desk.place("2")
    desk.exchange.says(first, state=E.REJECTED, reason="post only \udcff")
    desk.step()
    assert (desk.state(first), desk.state(second)) == (S.REJECTED, S.OPEN)
    assert desk.loop.reconcile() == []


def test_a_rejected_order_keeps_its_partial_fill(desk: Desk) -> None:
    name = desk.place("1", "2")
    desk.exchange.says(name, state=E.REJECTED, filled_qty=Decimal(1), avg_fill_price=Decimal(100))
    desk.step()
    assert desk.state(name) is S.CANCELED
    assert desk.order(name).filled_qty == 1
    assert desk.loop.reconcile() == []


def test_a_restart_recovers_from_a_rejection_of_what_was_accepted(desk: Desk) -> None:
    name = desk.place("1")
    desk.exchange.says(name, state=E.REJECTED)
    loop = desk.restarted()
    assert [each["kind"] for each in loop.recover_from_restart()["differences"]] == ["rejected"]
    assert loop.is_ready


def test_an_order_filled_short_is_closed(desk: Desk) -> None:
    name = desk.place("1")
    filled = Decimal("0.999")
    desk.exchange.says(name, state=E.FILLED, filled_qty=filled, avg_fill_price=Decimal(100))
    kinds = [each.kind for each in desk.loop.reconcile()]
    assert kinds == [Kind.FILLED, Kind.FILLED_SHORT]
    assert (desk.state(name), desk.order(name).filled_qty) == (S.CANCELED, filled)
    assert desk.loop.reconcile() == []
    desk.loop.freeze("stop")
    desk.loop.thaw()


def test_averages_are_rounded(desk: Desk) -> None:
    name = desk.place("1", "2000", price=2)
    for qty, average in (("1000", "1.2346"), ("1000.01", "1.2345")):
        desk.exchange.says(name, filled_qty=Decimal(qty), avg_fill_price=Decimal(average))
        desk.step()
    assert desk.order(name).filled_qty == Decimal("1000.01")
    assert desk.reason == ""


def test_an_average_with_too_many_places_is_rounded(desk: Desk) -> None:
    name = desk.place("1", "3")
    desk.exchange.says(name, filled_qty=Decimal(1), avg_fill_price=Decimal(100) / Decimal(3))
    desk.step()
    assert desk.order(name).avg_fill_price == Decimal("33.333333333333333333")
    assert desk.reason == ""


@pytest.mark.parametrize("average", [Decimal("0.5"), Decimal(0), Decimal(-1)])
def test_an_impossible_average_freezes_and_the_quantity_counts(
    desk: Desk, average: Decimal
) -> None:
    name = desk.place("1", "3")
    desk.exchange.says(name, filled_qty=Decimal(1), avg_fill_price=Decimal(100))
    desk.step()
    desk.exchange.says(name, filled_qty=Decimal(2), avg_fill_price=average)
    desk.step()
    assert desk.order(name).filled_qty == 2
    assert desk.order(name).avg_fill_price == 100
    assert "reported an impossible state" in desk.reason


# -- lag
# ----------------------------------------------------------------------------------------------


def test_an_accepted_order_that_is_not_known_once_stays(desk: Desk) -> None:
    name = desk.place("1")
    desk.exchange.hidden[name] = 1
    desk.step()
    assert (desk.state(name), desk.reason) == (S.OPEN, "")
    desk.step()
    assert (desk.state(name), desk.reason) == (S.OPEN, "")


def test_an_accepted_order_that_a_restart_does_not_find_at_once_stays(desk: Desk) -> None:
    name = desk.place("1")
    desk.exchange.hidden[name] = 1
    desk.restarted().recover_from_restart()
    assert (desk.state(name), desk.reason) == (S.OPEN, "")


def test_an_accepted_order_that_stays_unknown_freezes_and_is_closed_by_the_freeze(
    desk: Desk,
) -> None:
    gone, other = desk.place("1"), desk.place("2")
    del desk.exchange.book[gone]
    steps = 0
    while not desk.reason:
        desk.step()
        steps += 1
    assert steps >= 3
    assert f"does not know order {gone} any more" in desk.reason
    assert len(desk.alerts) == 1
    assert desk.exchange.book[other].state is E.CANCELED
    while desk.store.open_orders():
        desk.step()
    assert desk.state(gone) is S.CANCELED
    desk.loop.thaw()


def test_a_freeze_does_not_close_an_accepted_order_that_is_not_known_for_a_moment(
    desk: Desk,
) -> None:
    name = desk.place("1")
    desk.exchange.hidden[name] = 2
    desk.loop.freeze("stop")
    assert (desk.state(name), desk.exchange.book[name].state) == (S.CANCELED, E.CANCELED)


def test_one_lookup_closes_an_order_that_was_never_acknowledged(desk: Desk) -> None:
    desk.exchange.breaks["place", ""] = ConnectionError("down")
    desk.exchange.breaks["find", ""] = ConnectionError("down")
    name = desk.place("1")
    assert desk.state(name) is S.PENDING
    desk.exchange.breaks.clear()
    desk.step()
    assert (desk.state(name), desk.reason) == (S.CANCELED, "")


# -- errors
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ConnectionError("reset \udcff"), KeyError("x"), OSError(5, "io")]
)
def test_an_adapter_error_about_one_order_stops_no_freeze(desk: Desk, error: Exception) -> None:
    names = [desk.place(f"{number}") for number in range(4)]
    desk.exchange.breaks["cancel", names[0]] = error
    with pytest.raises(ExchangeFailed, match="not settled"):
        desk.loop.freeze("stop")
    assert [desk.exchange.book[name].state for name in names] == [E.OPEN, *[E.CANCELED] * 3]
    with pytest.raises(Conflict):
        desk.loop.thaw()
    with pytest.raises(ExchangeFailed):
        desk.step()
    desk.exchange.breaks.clear()
    desk.step()
    assert desk.store.open_orders() == []
    desk.loop.thaw()


def test_an_adapter_error_about_one_order_stops_no_step(desk: Desk) -> None:
    first, second = desk.place("1"), desk.place("2")
    desk.exchange.breaks["find", first] = RuntimeError("bad reply")
    desk.exchange.says(second, state=E.CANCELED)
    with pytest.raises(ExchangeFailed, match=f"the first about {first}: bad reply"):
        desk.step()
    assert desk.state(second) is S.CANCELED
    assert desk.reason == ""


def test_a_message_that_cannot_be_understood_freezes_and_stops_no_other(desk: Desk) -> None:
    first, second = desk.place("1"), desk.place("2")
    desk.exchange.says(first, filled_qty=Decimal("NaN"))
    desk.exchange.says(second, state=E.REJECTED)
    desk.step()
    assert desk.state(second) is S.REJECTED
    assert f"order {first} could not be handled" in desk.reason


def test_missed_fills_are_found_by_a_lookup(desk: Desk) -> None:
    name = desk.place("1")
    desk.exchange.breaks["fills", ""] = RuntimeError("no stream")
    desk.exchange.says(name, state=E.FILLED, filled_qty=Decimal(1), avg_fill_price=Decimal(100))
    with pytest.raises(ExchangeFailed, match="fills"):
        desk.step()
    assert desk.state(name) is S.FILLED


# -- what stops placing -------------------------------------------------------------------------------


def test_nothing_is_placed_once_a_freeze_is_requested(desk: Desk) -> None:
    desk.place("1")
    desk.risk.freeze("a person says stop \udcff")
    with pytest.raises(OrdersFrozen, match="a person says stop"):
        desk.place("2")
    assert len(desk.exchange.book) == 1
    assert desk.place("1"), "a retry is answered"
    desk.step()
    assert desk.reason.startswith("a person says stop")


def test_a_freeze_between_intent_and_request_sends_nothing(desk: Desk) -> None:
    place = desk.store.place_order

    def interrupted(*args: object, **more: object) -> Order:
        desk.risk.freeze("now")
        return place(*args, **more)  # type: ignore[arg-type]

    desk.store.place_order = interrupted  # type: ignore[method-assign]
    desk.place("1")
    assert desk.exchange.book == {}


def test_a_thaw_does_not_undo_a_freeze_requested_after_the_last_step(desk: Desk) -> None:
    desk.loop.freeze("first")
    desk.risk.freeze("second")
    desk.loop.thaw()
    with pytest.raises(OrdersFrozen, match="second"):
        desk.place("1")
    desk.step()
    assert desk.reason == "second"
    desk.loop.thaw()
    desk.place("1")


def test_a_sell_below_the_market_is_judged_at_the_market(desk: Desk) -> None:
    desk.exchange.bid = Decimal("791.84")
    with pytest.raises(RiskRefused, match="over order_notional_max"):
        desk.place("1", "99000", Side.SELL, 1)
    desk.exchange.breaks["quote", ""] = NotImplementedError("no market")
    desk.clock.pause(60)
    with pytest.raises(RiskRefused, match="no fresh quote"):
        desk.place("2", "1", Side.SELL, 1)
    assert desk.place("3", "1", Side.BUY, 1)
    assert len(desk.exchange.book) == 1


CALLS: dict[str, Callable[[Desk], object]] = {
    "step": lambda desk: desk.step(),
    "freeze": lambda desk: desk.loop.freeze("stop \udcff \n"),
    "recover": lambda desk: desk.restarted().recover_from_restart(),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_text_from_outside_prevents_a_freeze(desk: Desk, call: str) -> None:
    name = desk.place("1")
    desk.exchange.says(name, filled_qty=Decimal(9), avg_fill_price=Decimal(1), reason="\udcff")
    desk.risk.freeze("\udcff\x00" * 400)
    CALLS[call](desk)
    assert desk.reason
    assert desk.reason.isprintable()
