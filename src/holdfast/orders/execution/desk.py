"""Talks to the exchange about one order at a time, and writes down what it says.

Promises: a request without a reply is settled by asking for its client_order_id; it is sent again only while
it is valid and the exchange has just said that it does not know it; what the exchange never acknowledged and
does not know once the request can no longer arrive never arrived. An order that it did acknowledge is closed
as gone only while frozen, after it was not known several times. What was filled is recorded, whatever else
is wrong with the message. Never: takes no answer for a no; lets a contradiction stop anything but trading.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal
from enum import Enum, auto
from typing import Final, TypeVar

import msgspec

from holdfast.clock import BlockingClock
from holdfast.core.check import check_number, check_whole
from holdfast.core.retry import ATTEMPTS_MAX
from holdfast.errors import BadConfig, IllegalTransition
from holdfast.metrics import Meter
from holdfast.orders.errors import ExchangeTimeout, InvalidOrder, OverFill
from holdfast.orders.exchange.port import ExchangeOrder, ExchangeState, Fill, Request
from holdfast.orders.execution.exposure import Exposure
from holdfast.orders.execution.line import Line
from holdfast.orders.execution.risk import RiskMonitor
from holdfast.orders.model.money import rounded
from holdfast.orders.model.order import Order, OrderState
from holdfast.orders.model.rules import clean_reason, is_unheard
from holdfast.orders.model.store import OrderStore
from holdfast.primitives.retry import Attempt, retry

T = TypeVar("T")
log = logging.getLogger("holdfast.orders")
IMPOSSIBLE: Final = (IllegalTransition, InvalidOrder, OverFill)
"""What a store says to news that no order can have."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long the loop believes, waits and tries."""

    valid_seconds: float = 5.0
    """A request may be accepted for so long after its intent was written."""
    skew_seconds: float = 0.5
    """The exchange's clock may differ from ours by so much."""
    attempts: int = 5
    """Tries of one call before the matter is left for a later step."""
    pause_seconds: float = 0.1
    """After a call without a reply; doubles up to a second."""
    audit_seconds: float = 5.0
    """An open order of which nothing was heard for so long is asked for."""
    gone_asks: int = 3
    gone_seconds: float = 10.0
    """An accepted order is taken for gone when it was not known so often, over so long."""
    cancel_rounds: int = 20
    """A freeze goes over what is open so often before it leaves the rest to later steps."""

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if name.endswith("_seconds"):
                check_number(name, value, wrong=BadConfig)
            else:
                check_whole(name, value, least=1, most=ATTEMPTS_MAX, wrong=BadConfig)


class Answer(Enum):
    """What came of asking for an order."""

    KNOWN = auto()
    """The exchange has it, or can no longer get it: it is written down."""
    ABSENT = auto()
    """The exchange does not know it; a request for it may still be under way."""
    SILENCE = auto()


class Desk:
    """One for each loop."""

    def __init__(
        self,
        line: Line,
        store: OrderStore,
        risk: RiskMonitor,
        *,
        clock: BlockingClock,
        pace: Pace,
        meter: Meter,
    ) -> None:
        self._line = line
        self._store = store
        self._risk = risk
        self._clock = clock
        self._pace = pace
        self._meter = meter
        self._heard_at: dict[str, float] = {}
        self._sent_at: dict[str, float] = {}
        self._absent: dict[str, tuple[float, int]] = {}
        """Accepted orders that are not known: since when, and how often that was said."""
        self.exposure = Exposure()

    # -- about one order --------------------------------------------------------------------------

    def send(self, order: Order) -> None:
        """Places a new order. Afterwards it is settled, or PENDING when nobody could be asked."""
        request = self._request(order)
        for attempt in range(self._pace.attempts):
            if self._risk.wish() is not None:
                return
            self._sent_at[order.client_order_id] = self._clock.monotonic()
            try:
                self.learn(self._line.place(request))
                return
            except ExchangeTimeout:
                self._missed("place", attempt)
            if self.settle(order) is not Answer.ABSENT or not self._may_send(request):
                return

    def settle(self, order: Order) -> Answer:
        """Asks what became of an order, and writes it down."""
        try:
            seen = self.ask("find", lambda: self._line.find(order.client_order_id))
        except ExchangeTimeout:
            return Answer.SILENCE
        if seen is not None:
            self.learn(seen)
            return Answer.KNOWN
        return Answer.KNOWN if self._missing(order) else Answer.ABSENT

    def cancel(self, order: Order) -> None:
        """Wants an order gone: it ends by the cancel, by a fill before it, or by not having arrived. To
        cancel twice is to cancel once, so whoever sees it open still may call this again."""
        if order.state is not OrderState.CANCEL_PENDING:
            self._move(order.client_order_id, OrderState.CANCEL_PENDING)
        try:
            seen = self._line.cancel(order.client_order_id)
        except ExchangeTimeout:
            self._missed("cancel", 0)
            self.settle(order)
            return
        if seen is None:
            self._missing(order)
        else:
            self.learn(seen)

    def learn(self, seen: ExchangeOrder) -> None:
        """What the exchange said about an order of ours. Old news changes nothing."""
        name = seen.client_order_id
        order = self._ours(name)
        if order is None:
            return
        self._heard_at[name] = self._store.now()
        self._absent.pop(name, None)
        if order.state is OrderState.PENDING:
            self._risk.heard(rejected=seen.state is ExchangeState.REJECTED)
        if seen.state is ExchangeState.REJECTED and order.is_open:
            log.warning("order %s was rejected: %s", name, clean_reason(seen.reason))
        if seen.filled_qty > order.filled_qty:
            self._fill(order, seen)
        if (state := _next(self._latest(name), seen.state)) is not None:
            try:
                self._move(name, state)
            except IMPOSSIBLE as error:
                self._contradicted(error)

    def learn_fill(self, fill: Fill) -> None:
        """A message, which may be old, repeated, or about nothing of ours."""
        order = self._ours(fill.client_order_id)
        is_news = order is not None and fill.filled_qty > order.filled_qty
        self._meter.count("holdfast_execution_fill_messages_total", news="yes" if is_news else "no")
        if order is not None and is_news:
            self._heard_at[fill.client_order_id] = self._store.now()
            self._fill(order, fill)

    def close_missing(self, order: Order) -> None:
        """The exchange does not know it and no request for it can arrive any more. CANCELED, not
        REJECTED: should it turn up against all promises, its fills still count."""
        log.warning("order %s never arrived at the exchange", order.client_order_id)
        self._meter.count("holdfast_execution_orders_never_arrived_total")
        self._move(order.client_order_id, OrderState.CANCELED)

    # -- asking -----------------------------------------------------------------------------------

    def ask(self, name: str, call: Callable[[], T]) -> T:
        """A call that changes nothing, tried a few times. Raises ExchangeTimeout at the end."""

        def missed(_: Attempt) -> None:
            self._meter.count("holdfast_execution_timeouts_total", call=name)

        return retry(
            call,
            attempts=self._pace.attempts,
            base_ms=self._pace.pause_seconds * 1_000,
            max_delay_ms=1_000,
            idem_key=name,
            on_retry=missed,
            deterministic_clock=self._clock,
        )

    def may_arrive(self, order: Order) -> bool:
        """Whether a request for it could still be under way: by the store's clock, and, if it was sent by
        this process, also by a clock that nobody sets."""
        return self._left_seconds(order) >= 0

    def wait_for(self, orders: list[Order]) -> None:
        """Until no request for any of these can be under way."""
        left = max((self._left_seconds(order) for order in orders), default=-1.0)
        if left >= 0:
            self._clock.pause(left + 0.001)

    def is_quiet(self, order: Order) -> bool:
        """Nothing was heard of it for long: messages get lost."""
        heard = self._heard_at.get(order.client_order_id, order.updated_at)
        return self._store.now() - heard >= self._pace.audit_seconds

    def rest(self, round_number: int) -> None:
        """A pause between rounds, longer each time, up to a second."""
        self._clock.pause(min(self._pace.pause_seconds * 2 ** min(round_number, 10), 1.0))

    def adopt(self) -> None:
        """Takes the orders of the store as they are."""
        self.exposure = Exposure(self._store.orders())

    # -- inside -----------------------------------------------------------------------------------

    def _request(self, order: Order) -> Request:
        return Request(
            order.client_order_id,
            order.symbol,
            order.side,
            order.qty,
            order.price,
            order.created_at + self._pace.valid_seconds,
        )

    def _may_send(self, request: Request) -> bool:
        """Still valid, and nobody wants it gone meanwhile."""
        is_wanted = self._latest(request.client_order_id).state is OrderState.PENDING
        is_valid = self._store.now() < request.valid_until
        return is_wanted and is_valid and not self._store.freeze_state().frozen

    def _left_seconds(self, order: Order) -> float:
        """How long a request for it may still be under way; below zero: it is not."""
        passed = self._store.now() - order.created_at
        sent_at = self._sent_at.get(order.client_order_id)
        if sent_at is not None:
            passed = min(passed, self._clock.monotonic() - sent_at)
        return self._pace.valid_seconds + self._pace.skew_seconds - passed

    def _missing(self, order: Order) -> bool:
        """The exchange does not know it; whether that ended it."""
        order = self._latest(order.client_order_id)
        if not order.is_open:
            return True
        if not is_unheard(order):
            return self._gone(order)
        if self.may_arrive(order):
            return False
        self.close_missing(order)
        return True

    def _gone(self, order: Order) -> bool:
        """It was accepted. One that is not known once may be known the next time; one that stays unknown
        stops trading first, and is closed by the freeze."""
        name, now = order.client_order_id, self._clock.monotonic()
        since, times = self._absent.get(name, (now, 0))
        self._absent[name] = since, times + 1
        if times + 1 < self._pace.gone_asks or now - since < self._pace.gone_seconds:
            return False
        if not self._store.freeze_state().frozen:
            self._risk.freeze(f"the exchange does not know order {name} any more")
            return False
        log.error("order %s was accepted and is gone at the exchange", name)
        self._meter.count("holdfast_execution_orders_gone_total")
        self._move(name, OrderState.CANCELED)
        return True

    def _missed(self, call: str, attempt: int) -> None:
        self._meter.count("holdfast_execution_timeouts_total", call=call)
        self.rest(attempt)

    def _fill(self, order: Order, seen: ExchangeOrder | Fill) -> None:
        qty, average = rounded(seen.filled_qty, ROUND_DOWN), rounded(seen.avg_fill_price)
        try:
            self._store.update_fill(order.client_order_id, qty, average)
        except IMPOSSIBLE as error:
            self._contradicted(error)
            self._fill_what_can_be(order, qty)
        if self._latest(order.client_order_id).state is OrderState.FILLED:
            self._meter.count("holdfast_execution_orders_filled_total")

    def _fill_what_can_be(self, order: Order, qty: Decimal) -> None:
        """The quantity is money: it counts up to what was ordered, at the price that is known."""
        qty = min(qty, order.qty)
        if order.state is not OrderState.REJECTED and qty > order.filled_qty:
            average = order.avg_fill_price or order.price
            self._store.update_fill(order.client_order_id, qty, average)

    def _contradicted(self, error: Exception) -> None:
        log.error("[RECONCILE] the exchange says what cannot be: %s", clean_reason(error))
        self._risk.freeze(f"the exchange says what cannot be: {error}")

    def _move(self, client_order_id: str, state: OrderState) -> None:
        if self._store.update_order_state(client_order_id, state):
            self._latest(client_order_id)
            if state is OrderState.CANCELED:
                self._meter.count("holdfast_execution_orders_canceled_total")
            if state is OrderState.REJECTED:
                self._meter.count("holdfast_execution_orders_rejected_total")

    def _ours(self, client_order_id: str) -> Order | None:
        """The order that a message is about. An id that no order can have is not ours."""
        try:
            return self._store.get(client_order_id)
        except InvalidOrder:
            return None

    def _latest(self, client_order_id: str) -> Order:
        order = self._store.get(client_order_id)
        assert order is not None, "orders are never deleted"
        self.exposure.put(order)
        if not order.is_open:
            self._heard_at.pop(client_order_id, None)
            self._sent_at.pop(client_order_id, None)
            self._absent.pop(client_order_id, None)
        return order


def _next(order: Order, said: ExchangeState) -> OrderState | None:
    """The state to move to after the exchange said where the order stands; None: stay."""
    match said:
        case ExchangeState.OPEN if order.state is OrderState.PENDING:
            return OrderState.OPEN
        case ExchangeState.CANCELED | ExchangeState.FILLED if order.is_open:
            return (
                OrderState.CANCELED
            )  # Filled there, not here: less than was ordered. It trades no more.
        case ExchangeState.REJECTED if order.is_open:
            return OrderState.CANCELED if order.filled_qty else OrderState.REJECTED
        case _:
            return None
