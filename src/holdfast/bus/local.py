"""Hints within one process: a hint is a function call.

Promises: a listener is called in the event loop in which it subscribed, whichever thread publishes. A
listener whose loop has ended is dropped. A forked child drops all listeners.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from holdfast.bus.port import Listener, Mode, Notification
from holdfast.forks import PassiveFollower, follow


class _Entry(NamedTuple):
    listener: Listener
    topics: tuple[str, ...]
    loop: asyncio.AbstractEventLoop | None


class LocalBus(PassiveFollower):
    """See `holdfast.bus.port.Bus`. All listeners are in this process."""

    def __init__(self) -> None:
        self._listeners: list[_Entry] = []
        follow(self)

    def start_over(self) -> None:
        self._listeners = []

    async def start(self) -> None:
        """Nothing to connect."""

    async def stop(self) -> None:
        """Nothing to close."""

    def publish(self, topic: str) -> None:
        self._call_listeners(topic, topic)

    def _call_listeners(self, topic: str, hint: str) -> None:
        if not self._listeners:
            return
        entries = [entry for entry in self._listeners if not entry.topics or topic in entry.topics]
        here = asyncio._get_running_loop() if entries else None
        for entry in entries:
            if entry.loop is here or entry.loop is None:
                entry.listener(hint)
            else:
                self._call_in_loop(entry, entry.loop, hint)

    def _call_in_loop(self, entry: _Entry, loop: asyncio.AbstractEventLoop, hint: str) -> None:
        try:
            loop.call_soon_threadsafe(entry.listener, hint)
        except RuntimeError:  # The loop has ended.
            if entry in self._listeners:
                self._listeners.remove(entry)

    def subscribe(self, listener: Listener, *topics: str) -> Callable[[], None]:
        entry = _Entry(listener, topics, asyncio._get_running_loop())
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry) if entry in self._listeners else None

    def mode(self) -> Mode:
        return Mode(True, "one process: wake-ups are calls")

    def notify_in_tx(self, topic: str, *, one: bool = False, must: bool = False) -> Notification:
        return Notification(topic, "")

    def committed(self, notification: Notification) -> None:
        self._call_listeners(notification.topic, notification.topic)
