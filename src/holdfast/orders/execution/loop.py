"""The execution loop: places orders, follows what becomes of them, freezes and recovers.

Promises: the intent is durable before a request is sent. An idempotency key places one order, whatever is
lost or crashes in between. A freeze cancels every open order; `thaw` works only when none is open. After
a restart no order is placed before the store and the exchange agree. A problem with one order does not
stop the handling of the others; it is raised, or freezes trading, at the end.
Never: sends an order again without looking it up; forgets an order that the exchange may have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from holdfast.clock import BlockingClock, SystemClock
from holdfast.errors import Conflict, NotRunning, NotSupported, StoreUnavailable
from holdfast.metrics import Meter, NullMeter
from holdfast.orders.errors import (
    ExchangeTimeout,
    NotReconciled,
    OrdersFrozen,
    RiskRefused,
    UnknownOrder,
)
from holdfast.orders.exchange.port import Exchange, ExchangeOrder, Quote, checked_quotes
from holdfast.orders.execution.alerts import Alert, AlertHook, deliver
from holdfast.orders.execution.desk import Answer, Desk, Pace
from holdfast.orders.execution.line import Line
from holdfast.orders.execution.reconcile import ALARMING, Difference, Kind, compare
from holdfast.orders.execution.report import RecoveryReport, Stats, recovery_report, stats_of
from holdfast.orders.execution.risk import RiskMonitor
from holdfast.orders.model import requests
from holdfast.orders.model.order import FreezeState, Intent, Order, OrderState
from holdfast.orders.model.rules import clean_reason
from holdfast.orders.model.store import OrderStore

log = logging.getLogger("holdfast.orders")


class ExecutionLoop:
    """One per store, used from one thread. Another thread or process freezes with `risk_monitor.freeze`
    or the store's `freeze`: from then on nothing is placed, and the next step cancels."""

    def __init__(
        self,
        *,
        exchange: Exchange,
        order_store: OrderStore,
        risk_monitor: RiskMonitor,
        enable_idempotency: bool = True,
        clock: BlockingClock | None = None,
        pace: Pace | None = None,
        on_alert: AlertHook | None = None,
        meter: Meter | None = None,
    ) -> None:
        if not enable_idempotency:
            raise NotSupported(
                "enable_idempotency=False is refused: without its idempotency key a retry after a lost "
                "reply places the order twice; for a run that leaves nothing behind give an "
                "InMemoryOrderStore"
            )
        self._store = order_store
        self._risk = risk_monitor
        self._clock = clock or SystemClock()
        self._pace = pace or Pace()
        self._on_alert = on_alert
        self._meter = meter or NullMeter()
        self._line = Line(exchange, self._meter)
        self._desk = Desk(
            self._line,
            order_store,
            risk_monitor,
            clock=self._clock,
            pace=self._pace,
            meter=self._meter,
        )
        self._desk.adopt()
        self._tried: set[str] = set()
        self._alerted = 0
        self._emptied = 0
        self._ready = not order_store.open_orders() and not order_store.freeze_state().frozen

    # -- what users call --------------------------------------------------------------------------

    def place(self, intent: Intent) -> Order:
        """Places an order and returns it. PENDING: the exchange could not be reached; a later `step`
        settles it. A repeat with the same key returns the same order. Raises OrdersFrozen, RiskRefused,
        IdempotencyConflict, NotReconciled, InvalidOrder."""
        intent = requests.intent(intent)
        self._check_ready()
        epoch = self._store.freeze_state().epoch
        wish = self._risk.wish()
        if wish is not None and not self._is_known(intent):
            raise OrdersFrozen(
                f"{intent.key}: a freeze was asked for ({wish}); thaw when it is over"
            )
        why = self._refusal(intent)
        if why is not None and not self._is_known(intent):
            self._meter.count("holdfast_execution_refused_total")
            raise RiskRefused(f"{intent.key}: {why}")
        log.info("[IDEM] place_order with key=%s", intent.key)
        placed = self._store.place_order(
            intent.symbol, intent.side, intent.qty, intent.price, idem_key=intent.key, epoch=epoch
        )
        self._carry_out(placed)
        return self._order(placed.client_order_id)

    def step(self, quotes: Iterable[Quote] = ()) -> None:
        """Reads messages of the exchange, settles doubtful orders, and freezes if a limit is broken.
        Raises ExchangeFailed at the end when an adapter error is not settled. Raises InvalidInput, and
        does nothing, for an impossible quote."""
        quotes = checked_quotes(quotes)
        self._check_ready()
        for fill in self._line.fills():
            self._alone(fill.client_order_id, partial(self._desk.learn_fill, fill))
        for order in self._store.open_orders():
            self._alone(order.client_order_id, partial(self._follow_up, order))
        self._judge(quotes)
        self._enforce()
        self._show()
        self._line.tell()

    def cancel(self, client_order_id: str) -> Order:
        """Cancels one order and returns it. CANCEL_PENDING: the exchange did not confirm; later steps go
        on. Raises UnknownOrder."""
        self._check_ready()
        order = self._store.get(client_order_id)
        if order is None:
            raise UnknownOrder(f"there is no order '{client_order_id}' in this store")
        if order.is_open:
            self._desk.cancel(order)
        return self._order(client_order_id)

    def freeze(self, reason: str) -> int:
        """Stops placing, cancels every open order, and returns the epoch. Called again while frozen, it
        continues with the orders that are still open. Orders that the exchange did not confirm are left
        to the next steps. Raises ExchangeFailed when an adapter raised and an order is still open."""
        epoch = self._freeze(reason)
        if self._store.open_orders():
            self._line.tell()
        return epoch

    def thaw(self) -> int:
        """Allows placing again. Raises Conflict while an order is still open."""
        self._check_ready()
        left = self._store.open_orders()
        if left and self._store.freeze_state().frozen:
            raise Conflict(
                f"{len(left)} orders are not closed yet, the first is {left[0].client_order_id}: "
                "call step() until the exchange has answered, then thaw"
            )
        self._risk.thaw()
        return self._store.thaw()

    def recover_from_restart(self) -> RecoveryReport:
        """Loads the durable state and reconciles it with the exchange; then orders are accepted. Raises
        ExchangeTimeout when the exchange cannot be reached: call it again."""
        self._ready = False
        self._store.recover_from_snapshot()
        self._desk.adopt()
        found = self._store.open_orders()
        log.info("[RECOVERY] Recovered %d open orders", len(found))
        differences = self.reconcile()
        self._ready = True
        self._judge(())
        self._enforce()
        self._show()
        return recovery_report(
            found, differences, self._store.open_orders(), self._store.freeze_state()
        )

    def reconcile(self) -> list[Difference]:
        """Makes the store agree with the exchange, and returns the differences. Raises ExchangeTimeout
        when the exchange could not be reached about all of them."""
        doubtful = [o for o in self._store.open_orders() if o.state in _UNHEARD]
        self._desk.wait_for(doubtful)
        seen = {each.client_order_id: each for each in self._desk.ask("orders", self._line.orders)}
        differences = compare(self._store.orders(), list(seen.values()))
        for difference in differences:
            self._meter.count("holdfast_execution_differences_total", kind=difference.kind.value)
            log.log(
                logging.WARNING if difference.kind in ALARMING else logging.INFO,
                "[RECONCILE] %s: %s, ours '%s', theirs '%s'",
                difference.client_order_id,
                difference.kind.value,
                difference.ours,
                difference.theirs,
            )
            mend = partial(self._mend, difference, seen.get(difference.client_order_id))
            self._alone(difference.client_order_id, mend)
        self._risk.unknown(sum(each.kind is Kind.UNKNOWN_TO_US for each in differences))
        self._line.tell()
        return differences

    @property
    def is_ready(self) -> bool:
        """Whether the orders from before a restart are settled."""
        return self._ready

    @property
    def store(self) -> OrderStore:
        return self._store

    def stats(self) -> Stats:
        """Counted from the store, so the numbers survive a restart and match the orders."""
        return stats_of(self._store.orders(), self._store.freeze_state())

    # -- inside -----------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        if not self._ready:
            raise NotReconciled(
                "the store has orders of an earlier run: call recover_from_restart() first, which "
                "settles them with the exchange"
            )

    def _refusal(self, intent: Intent) -> str | None:
        now = self._clock.now()
        if self._risk.fresh(intent.symbol, now) is None:
            quote = self._line.quote(intent.symbol)
            if quote is not None:
                self._risk.quoted(quote)
        return self._risk.refusal(self._desk.exposure, intent, now)

    def _alone(self, name: str, look: Callable[[], None]) -> None:
        """Runs one step about one order and keeps its error for the end: the other orders must be handled
        too. Only a failed store ends the round."""
        try:
            look()
        except (StoreUnavailable, NotRunning):
            raise
        except ExchangeTimeout as silence:
            self._line.troubled(name, silence)
        except Exception as error:
            why = f"order {name} could not be handled: {type(error).__name__} {clean_reason(error)}"
            log.error("[RECONCILE] %s", why)  # noqa: TRY400 (its text came from outside)
            self._risk.freeze(why)

    def _freeze(self, reason: str) -> int:
        reason = clean_reason(reason)
        self._risk.freeze(
            reason
        )  # From here on nothing is placed, even if the freeze cannot be written.
        before = self._store.freeze_state().epoch
        epoch = self._store.freeze(reason)
        self._risk.heed()
        if epoch != before:
            self._meter.count("holdfast_execution_freeze_events_total")
        self._enforce()
        return epoch

    def _is_known(self, intent: Intent) -> bool:
        """Whether the key is known: a retry is answered even if a limit is broken by now."""
        return any(o.idem_key == intent.key for o in self._store.by_symbol(intent.symbol))

    def _carry_out(self, placed: Order) -> None:
        name = placed.client_order_id
        order = self._order(name)
        if name not in self._tried and order.version == 1:
            self._tried.add(name)
            self._meter.count("holdfast_execution_orders_placed_total")
            self._desk.exposure.put(order)
            self._desk.send(order)
            if self._order(name).state is not OrderState.PENDING:
                self._tried.discard(name)
            return
        self._meter.count("holdfast_execution_replayed_total")
        if order.state is OrderState.PENDING:
            self._desk.settle(order)

    def _follow_up(self, order: Order) -> None:
        """Handles an order that needs more than waiting for its fills."""
        if order.state is OrderState.CANCEL_PENDING:
            self._desk.cancel(order)
        elif order.state is OrderState.PENDING or self._desk.is_quiet(order):
            self._desk.settle(order)

    def _order(self, client_order_id: str) -> Order:
        order = self._store.get(client_order_id)
        assert order is not None, "orders are never deleted"
        return order

    def _judge(self, quotes: Iterable[Quote]) -> None:
        if self._store.freeze_state().frozen:
            self._risk.heed()
            return
        why = self._risk.tripped(self._desk.exposure, quotes, self._clock.now())
        if why is not None:
            self._freeze(why)

    def _enforce(self) -> None:
        """While frozen: cancels until no order is open. The key contains the epoch: repeats are one
        cancel-all, and the next freeze has another key."""
        state = self._store.freeze_state()
        if not state.frozen or (self._emptied == state.epoch and not self._store.open_orders()):
            return
        key = f"freeze_{state.epoch}"
        log.warning("[FREEZE] cancel_all triggered, idem_key=%s", key)
        self._store.cancel_all_open(idem_key=key)
        for round_number in range(self._pace.cancel_rounds):
            for order in self._store.open_orders():
                self._alone(order.client_order_id, partial(self._desk.cancel, order))
            self._alert(state)
            if not self._store.open_orders():
                self._emptied = state.epoch
                seconds = max(0.0, self._store.now() - state.at)
                self._meter.observe("holdfast_execution_freeze_seconds", seconds)
                return
            self._desk.rest(round_number)

    def _alert(self, state: FreezeState) -> None:
        """Alerts after the first round: cancelling is more urgent."""
        if self._alerted == state.epoch:
            return
        self._alerted = state.epoch
        alert = Alert(
            epoch=state.epoch,
            reason=state.reason,
            at=state.at,
            open_orders=len(self._store.open_orders()),
        )
        deliver(alert, self._on_alert, clock=self._clock, meter=self._meter)

    def _mend(self, difference: Difference, seen: ExchangeOrder | None) -> None:
        name = difference.client_order_id
        match difference.kind:
            case Kind.NEVER_ARRIVED:
                self._desk.close_missing(self._order(name))
            case Kind.GONE:
                if self._desk.settle(self._order(name)) is Answer.ABSENT:
                    self._risk.freeze(f"the exchange does not know order {name} any more")
            case Kind.UNKNOWN_TO_US | Kind.FILLED_LESS:
                return  # the risk monitor and a person decide about these
            case Kind.OPEN_THERE:
                after = self._desk.ask("cancel", lambda: self._line.cancel(name))
                if after is not None:
                    self._desk.learn(after)
            case _:
                assert seen is not None
                self._desk.learn(seen)

    def _show(self) -> None:
        self._meter.gauge("holdfast_execution_open_orders", len(self._store.open_orders()))
        self._meter.gauge("holdfast_execution_frozen", float(self._store.freeze_state().frozen))


_UNHEARD = (OrderState.PENDING, OrderState.CANCEL_PENDING)
