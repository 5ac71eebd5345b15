"""Hints between simulated nodes: messages like any other, so they get lost.

See `holdfast.bus.port`: nothing may depend on a hint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from holdfast.bus.local import LocalBus
from holdfast.bus.port import Mode, Notification, of_one
from holdfast.sim.disturbances import HINT
from holdfast.sim.net import Net


class SimBus(LocalBus):
    """Reaches every node that is alive."""

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
        self._spread(topic, topic)

    def notify_in_tx(self, topic: str, *, one: bool = False, must: bool = False) -> Notification:
        """Follows the commit, but says what those say that ride along on PostgreSQL."""
        return Notification(topic, of_one(topic) if one else topic)

    def committed(self, ride: Notification) -> None:
        self._spread(ride.topic, ride.hint)

    def _spread(self, topic: str, hint: str) -> None:
        self._tell(topic, hint)
        for name, bus in self._others():
            if bus is not self:
                hear = partial(LocalBus._tell, bus, topic, hint)
                self._net.send(self._node, name, HINT, hear)
