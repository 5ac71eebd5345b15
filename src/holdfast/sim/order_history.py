"""The orders of one trader as observed from outside, for the checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.orders.exchange.port import ExchangeOrder
from holdfast.orders.model.order import Order
from holdfast.orders.model.rules import is_unheard


class Placed(NamedTuple):
    """An order whose placement was acknowledged to a caller."""

    key: str
    client_order_id: str
    epoch: int
    asked_at: float
    """When this key was first requested."""


class OrderHistory:
    """Written by a trader through all its restarts; times are loop time."""

    def __init__(self, name: str, kind: str, time: Callable[[], float]) -> None:
        self.name = name
        self.kind = kind
        self._time = time
        self._asked: dict[str, float] = {}
        self.placed: list[Placed] = []
        self.acknowledged: dict[str, Order] = {}
        """The newest version of each order that a caller received."""
        self.frozen: dict[int, float] = {}
        """When a freeze was first acknowledged, by epoch."""
        self.thawed: dict[int, float] = {}
        """When a thaw was first requested, by epoch."""
        self.blind: list[str] = []
        self.lost: list[str] = []
        """Restarts that recovered a state other than the last one."""
        self.given_up: list[str] = []
        """Orders that had ended in the store and were open at the exchange."""
        self.late: list[str] = []
        """Orders placed after a freeze was requested."""
        self.final: list[Order] = []
        self.truth: list[ExchangeOrder] = []
        self.acted: list[str] = []
        self.wrong: list[str] = []
        """Errors that the store found in its indexes."""
        self.restless = ""
        """Why the trader did not reach quiescence."""

    def asks(self, key: str) -> None:
        self._asked.setdefault(key, self._time())

    def tells(self, key: str, order: Order) -> None:
        """A placement was acknowledged."""
        name = order.client_order_id
        self.placed.append(Placed(key, name, order.epoch, self._asked[key]))
        self.sees(order)

    def is_accepted(self, client_order_id: str) -> bool:
        """Whether the store has received news of it from the exchange."""
        order = self.acknowledged.get(client_order_id)
        return order is not None and order.version > 1 and not is_unheard(order)

    def sees(self, order: Order) -> None:
        newest = self.acknowledged.get(order.client_order_id)
        if newest is None or newest.version < order.version:
            self.acknowledged[order.client_order_id] = order

    def freezes(self, epoch: int) -> None:
        self.frozen.setdefault(epoch, self._time())

    def thaws(self, epoch: int) -> None:
        self.thawed.setdefault(epoch, self._time())
