"""Handles one order at a time with the exchange, and records its state in the store.

Promises: a request without a reply is resolved by looking its client_order_id up. It is sent again only
while it is valid and the exchange has just said that it does not know the order. An order that was never
acknowledged and is unknown after its request has expired is closed as never arrived. An order that was
acknowledged and is unknown is closed only while frozen, after several lookups. A reported fill is
recorded even if the rest of the message is inconsistent.
Never: takes a missing reply for a refusal; lets an inconsistent message stop anything but trading.
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
"""Errors of the store for a report that is impossible for the order."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts and attempts of the loop."""

    valid_seconds: float = 5.0
    """How long after its intent was written a request may be accepted."""
    skew_seconds: float = 0.5
    """The largest difference between the exchange's clock and ours."""
    attempts: int = 5
    """Attempts of one call before the order is left for a later step."""
    pause_seconds: float = 0.1
    """Pause after a call without a reply; doubles up to a second."""
    audit_seconds: float = 5.0
    """An open order without news for this long is looked up."""
    gone_asks: int = 3
    gone_seconds: float = 10.0
    """An accepted order counts as gone after this many lookups without a result, over this long."""
    cancel_rounds: int = 20
    """Rounds of cancels in one freeze before the rest is left to later steps."""

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if name.endswith("_seconds"):
                check_number(name, value, wrong=BadConfig)
            else:
                check_whole(name, value, least=1, most=ATTEMPTS_MAX, wrong=BadConfig)


class Answer(Enum):
    """Result of looking an order up."""

    KNOWN = auto()
    """The exchange has the order, or can no longer get it. The store is up to date."""
    ABSENT = auto()
    """The exchange does not know the order; a request for it may still be in flight."""
    SILENCE = auto()


class Desk:
    """The orders of one loop."""

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
        """Accepted orders that the exchange does not know: since when, and how many lookups said so."""
        self.exposure = Exposure()

    # -- about one order --------------------------------------------------------------------------

    def send(self, order: Order) -> None:
        """Places a new order. Afterwards it is settled, or PENDING when the exchange could not be
        reached."""
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
        """Looks an order up and records what became of it."""
        try:
            seen = self.ask("find", lambda: self._line.find(order.client_order_id))
        except ExchangeTimeout:
            return Answer.SILENCE
        if seen is not None:
            self.learn(seen)
            return Answer.KNOWN
        return Answer.KNOWN if self._missing(order) else Answer.ABSENT

    def cancel(self, order: Order) -> None:
        """Cancels an order: it ends by the cancel, by a fill before it, or by never having arrived.
        Idempotent: may be called again while the order is open."""
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
        """Records what the exchange reported about an order. Old news changes nothing."""
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
        """Records a fill message, which may be old, repeated, or about an unknown order."""
        order = self._ours(fill.client_order_id)
        is_news = order is not None and fill.filled_qty > order.filled_qty
        self._meter.count("holdfast_execution_fill_messages_total", news="yes" if is_news else "no")
        if order is not None and is_news:
            self._heard_at[fill.client_order_id] = self._store.now()
            self._fill(order, fill)

    def close_missing(self, order: Order) -> None:
        """Closes an order that the exchange does not know and that no request can create any more.
        CANCELED, not REJECTED: if it appears after all, its fills still count."""
        log.warning("order %s never arrived at the exchange", order.client_order_id)
        self._meter.count("holdfast_execution_orders_never_arrived_total")
        self._move(order.client_order_id, OrderState.CANCELED)

    # -- asking -----------------------------------------------------------------------------------

    def ask(self, name: str, call: Callable[[], T]) -> T:
        """A call without side effects, tried a few times. Raises ExchangeTimeout if all attempts fail."""

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
        """Whether a request for the order may still be in flight: by the store's clock, and by the
        monotonic clock if this process has sent it."""
        return self._left_seconds(order) >= 0

    def wait_for(self, orders: list[Order]) -> None:
        """Waits until no request for any of these orders can be in flight."""
        left = max((self._left_seconds(order) for order in orders), default=-1.0)
        if left >= 0:
            self._clock.pause(left + 0.001)

    def is_quiet(self, order: Order) -> bool:
        """Whether there was no news about the order for `audit_seconds`: messages get lost."""
        heard = self._heard_at.get(order.client_order_id, order.updated_at)
        return self._store.now() - heard >= self._pace.audit_seconds

    def rest(self, round_number: int) -> None:
        """Pauses between rounds, longer each time, up to a second."""
        self._clock.pause(min(self._pace.pause_seconds * 2 ** min(round_number, 10), 1.0))

    def adopt(self) -> None:
        """Loads the orders of the store."""
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
        """Whether the order is still valid and no cancel was requested meanwhile."""
        is_wanted = self._latest(request.client_order_id).state is OrderState.PENDING
        is_valid = self._store.now() < request.valid_until
        return is_wanted and is_valid and not self._store.freeze_state().frozen

    def _left_seconds(self, order: Order) -> float:
        """How long a request for the order may still be in flight; negative: it cannot be."""
        passed = self._store.now() - order.created_at
        sent_at = self._sent_at.get(order.client_order_id)
        if sent_at is not None:
            passed = min(passed, self._clock.monotonic() - sent_at)
        return self._pace.valid_seconds + self._pace.skew_seconds - passed

    def _missing(self, order: Order) -> bool:
        """Handles an order that the exchange does not know. True if that ended it."""
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
        """Handles an accepted order that the exchange does not know. One failed lookup proves nothing. An
        order that stays unknown first freezes trading; the freeze closes it."""
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
        """Records the filled quantity up to the ordered one, at the last known price: the quantity is
        money."""
        qty = min(qty, order.qty)
        if order.state is not OrderState.REJECTED and qty > order.filled_qty:
            average = order.avg_fill_price or order.price
            self._store.update_fill(order.client_order_id, qty, average)

    def _contradicted(self, error: Exception) -> None:
        log.error("[RECONCILE] the exchange reported an impossible state: %s", clean_reason(error))
        self._risk.freeze(f"the exchange reported an impossible state: {error}")

    def _move(self, client_order_id: str, state: OrderState) -> None:
        if self._store.update_order_state(client_order_id, state):
            self._latest(client_order_id)
            if state is OrderState.CANCELED:
                self._meter.count("holdfast_execution_orders_canceled_total")
            if state is OrderState.REJECTED:
                self._meter.count("holdfast_execution_orders_rejected_total")

    def _ours(self, client_order_id: str) -> Order | None:
        """The order that a message is about; None if its id cannot be an id of this store."""
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
    """The state to move to after a report of the exchange; None: stay."""
    match said:
        case ExchangeState.OPEN if order.state is OrderState.PENDING:
            return OrderState.OPEN
        case ExchangeState.CANCELED | ExchangeState.FILLED if order.is_open:
            # FILLED there but not here: filled with less than was ordered, and no longer trading.
            return OrderState.CANCELED
        case ExchangeState.REJECTED if order.is_open:
            return OrderState.CANCELED if order.filled_qty else OrderState.REJECTED
        case _:
            return None
