"""Hints within one process: wake-ups are calls."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.bus.port import Listener, Mode


class LocalBus:
    """See `holdfast.bus.port.Bus`: everybody is in this process."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    async def start(self) -> None:
        """Nothing to connect."""

    async def stop(self) -> None:
        """Nothing to close."""

    def publish(self, topic: str) -> None:
        for listener in list(self._listeners):
            listener(topic)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def mode(self) -> Mode:
        return Mode(True, "one process: wake-ups are calls")

    def ride_along(self, topic: str, *, must: bool = False) -> str:
        return ""
