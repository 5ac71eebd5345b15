"""Hints between simulated nodes. They are messages and can be lost: nothing may depend on a hint.

See `holdfast.bus.port`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from holdfast.bus.local import LocalBus
from holdfast.bus.port import Mode, Notification, of_one
from holdfast.sim.disturbances import HINT
from holdfast.sim.net import Net


class SimBus(LocalBus):
    """Delivers to every live node."""

    def __init__(
        self, node: str, net: Net, others: Callable[[], Iterable[tuple[str, SimBus]]]
    ) -> None:
        super().__init__()
        self._node = node
        self._net = net
        self._others = others

    def mode(self) -> Mode:
        return Mode(True, "simulated network")

    def publish(self, topic: str) -> None:
        self._broadcast(topic, topic)

    def notify_in_tx(self, topic: str, *, one: bool = False, must: bool = False) -> Notification:
        """Published after the commit, with the same hint as a NOTIFY inside the transaction on PostgreSQL."""
        return Notification(topic, of_one(topic) if one else topic)

    def committed(self, notification: Notification) -> None:
        self._broadcast(notification.topic, notification.hint)

    def _broadcast(self, topic: str, hint: str) -> None:
        self._call_listeners(topic, hint)
        for name, bus in self._others():
            if bus is not self:
                hear = partial(LocalBus._call_listeners, bus, topic, hint)
                self._net.send(self._node, name, HINT, hear)
