"""What became of one trader's orders, as seen from outside: for the checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.orders.exchange import ExchangeOrder
from holdfast.orders.order import Order
from holdfast.orders.rules import is_unheard


class Placed(NamedTuple):
    """An order that a caller was told is in the store."""

    key: str
    client_order_id: str
    epoch: int
    asked_at: float
    """When anybody asked for this key first."""


class OrderHistory:
    """Filled by a trader through all its lives; times are the world's."""

    def __init__(self, name: str, kind: str, time: Callable[[], float]) -> None:
        self.name = name
        self.kind = kind
        self._time = time
        self._asked: dict[str, float] = {}
        self.placed: list[Placed] = []
        self.told: dict[str, Order] = {}
        """The newest that a caller was told of each order."""
        self.frozen: dict[int, float] = {}
        """When a freeze was answered with its epoch, first."""
        self.thawed: dict[int, float] = {}
        """When somebody asked to thaw an epoch, first."""
        self.blind: list[str] = []
        self.lost: list[str] = []
        """Restarts that found another state than the one before."""
        self.given_up: list[str] = []
        """Orders that the store took for ended and the exchange had open."""
        self.late: list[str] = []
        """Orders that were placed after a freeze was asked for."""
        self.final: list[Order] = []
        self.truth: list[ExchangeOrder] = []
        self.acted: list[str] = []
        self.wrong: list[str] = []
        """What the store says of its own indexes."""
        self.restless = ""
        """Why it did not come to rest."""

    def asks(self, key: str) -> None:
        self._asked.setdefault(key, self._time())

    def tells(self, key: str, order: Order) -> None:
        """A placement was answered."""
        name = order.client_order_id
        self.placed.append(Placed(key, name, order.epoch, self._asked[key]))
        self.sees(order)

    def is_accepted(self, client_order_id: str) -> bool:
        """Whether the store is known to have heard of it from the exchange."""
        order = self.told.get(client_order_id)
        return order is not None and order.version > 1 and not is_unheard(order)

    def sees(self, order: Order) -> None:
        known = self.told.get(order.client_order_id)
        if known is None or known.version < order.version:
            self.told[order.client_order_id] = order

    def freezes(self, epoch: int) -> None:
        self.frozen.setdefault(epoch, self._time())

    def thaws(self, epoch: int) -> None:
        self.thawed.setdefault(epoch, self._time())
