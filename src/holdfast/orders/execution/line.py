"""The exchange as the loop calls it: errors of an adapter count as a missing reply.

Promises: whatever an adapter raises becomes an ExchangeTimeout, because it is not known what the call
did. It is logged, counted and remembered until a later call about the same order succeeds.
Never: lets another error of an adapter through; hides that an adapter is broken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from holdfast.metrics import Meter
from holdfast.orders.errors import ExchangeFailed, ExchangeTimeout
from holdfast.orders.exchange.port import Exchange, ExchangeOrder, Fill, Quote, Request, check_quote
from holdfast.orders.model.rules import clean_reason

T = TypeVar("T")
log = logging.getLogger("holdfast.orders")


class Line:
    """The calls of one loop."""

    def __init__(self, exchange: Exchange, meter: Meter) -> None:
        self._exchange = exchange
        self._meter = meter
        self._troubles: dict[str, tuple[str, Exception]] = {}
        """Unsettled errors by the order they are about: the call, and what it raised."""

    def place(self, request: Request) -> ExchangeOrder:
        name = request.client_order_id
        return self._heard("place", name, lambda: self._exchange.place(request))

    def cancel(self, client_order_id: str) -> ExchangeOrder | None:
        name = client_order_id
        return self._heard("cancel", name, lambda: self._exchange.cancel(name))

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        name = client_order_id
        return self._heard("find", name, lambda: self._exchange.find(name))

    def orders(self) -> list[ExchangeOrder]:
        return self._heard("orders", "orders", self._exchange.orders)

    def fills(self) -> list[Fill]:
        """Empty when the exchange does not answer. Missed fills are found by looking the order up."""
        try:
            return self._heard("fills", "fills", self._exchange.fills)
        except ExchangeTimeout:
            return []

    def quote(self, symbol: str) -> Quote | None:
        """None when no quote is available."""
        try:
            quote = self._exchange.quote(symbol)
            check_quote(quote)
        except Exception as error:  # no quote is a valid answer: what needs one is refused
            log.debug("no quote of %s: %s", symbol, clean_reason(error))
            return None
        return quote

    def troubled(self, about: str, error: Exception) -> None:
        """Remembers an error about an order."""
        self._troubles[about] = "", error

    def tell(self) -> None:
        """Raises ExchangeFailed once for the errors that are not settled."""
        if not self._troubles:
            return
        about, (_, error) = next(iter(self._troubles.items()))
        count = len(self._troubles)
        self._troubles = {}
        raise ExchangeFailed(
            f"errors of the exchange adapter are not settled: {count}, the first about {about}: "
            f"{clean_reason(error)}. Everything else was done; call again"
        ) from error

    def _heard(self, call: str, about: str, ask: Callable[[], T]) -> T:
        try:
            answer = ask()
        except ExchangeTimeout:
            raise
        except Exception as error:
            kind, said = type(error).__name__, clean_reason(error)
            log.warning("the exchange adapter raised in %s %s: %s %s", call, about, kind, said)
            self._meter.count("holdfast_execution_adapter_errors_total", call=call)
            self._troubles[about] = call, error
            raise ExchangeFailed(f"{call} {about}: {kind} {said}") from error
        if about in self._troubles and (
            call == "cancel" or not self._is_wanted_gone(about, answer)
        ):
            del self._troubles[about]
        return answer

    def _is_wanted_gone(self, about: str, answer: object) -> bool:
        """Whether a cancel raised and the order is still open: then the error is not settled."""
        is_open = not isinstance(answer, ExchangeOrder) or answer.is_open
        return self._troubles[about][0] == "cancel" and is_open
