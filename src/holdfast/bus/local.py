"""Hints within one process: wake-ups are calls."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.bus.port import Listener, Mode, Ride


class LocalBus:
    """See `holdfast.bus.port.Bus`: everybody is in this process."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, tuple[str, ...]]] = []

    async def start(self) -> None:
        """Nothing to connect."""

    async def stop(self) -> None:
        """Nothing to close."""

    def publish(self, topic: str) -> None:
        self._tell(topic, topic)

    def _tell(self, topic: str, hint: str) -> None:
        for listener, topics in list(self._listeners):
            if not topics or topic in topics:
                listener(hint)

    def subscribe(self, listener: Listener, *topics: str) -> Callable[[], None]:
        entry = (listener, topics)
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry) if entry in self._listeners else None

    def mode(self) -> Mode:
        return Mode(True, "one process: wake-ups are calls")

    def ride_along(self, topic: str, *, one: bool = False, must: bool = False) -> Ride:
        return Ride(topic, "")

    def landed(self, ride: Ride) -> None:
        self._tell(ride.topic, ride.topic)
