"""Hints between processes that share one SQLite file.

A process that commits sends a datagram to the others (`peers.py`): about work at once, about other changes at
most every `TOUCH_SECONDS`. The version of the file is the fallback: it changes with every commit of another
connection or of another event loop of this process.
Promises: a lost datagram delays a hint by at most `NET_SECONDS`. Without datagrams the version is read every
`WATCH_SECONDS`. A version that cannot be read is reported by `mode` and in the log, and read again later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from holdfast.bus.local import LocalBus
from holdfast.bus.peers import Peers
from holdfast.bus.port import FEED, WORK, Mode, Notification, is_of_one, of_one
from holdfast.clock import Clock

WATCH_SECONDS: Final = 0.02
NET_SECONDS: Final = 0.25
LIVELY_SECONDS: Final = 5.0
"""How long the version is read every `WATCH_SECONDS` after a write in a caller's own transaction."""
AGAIN_SECONDS: Final = 1.0
SEND_SECONDS: Final = 0.001
"""The interval between two datagrams about work."""
TOUCH_SECONDS: Final = 0.02
"""The interval between two datagrams about other changes."""
log = logging.getLogger("holdfast.bus")


class FileBus(LocalBus):
    """See `holdfast.bus.port.Bus`."""

    def __init__(
        self,
        version: Callable[[], int],
        peers: Peers,
        clock: Clock,
        on_commit: Callable[[Callable[[], None]], None] = lambda _: None,
    ) -> None:
        """`on_commit` registers a function that is called after each commit of this event loop."""
        super().__init__()
        self._on_commit = on_commit
        self._version = version
        self._peers = peers
        self._monotonic = clock.monotonic
        self._task: asyncio.Task[None] | None = None
        self._mode = Mode(False, "not started yet")
        self._fd = -1
        self._lively_until = float("-inf")
        self._outbox: dict[str, bool] = {}
        """Topics to send, and whether each hint is about a single task."""
        self._sent_at = float("-inf")
        self._touched_at = float("-inf")
        self._owes_touch = False
        """Data changed while no other process was known."""
        self._timers: dict[str, asyncio.Handle] = {}

    async def start(self) -> None:
        self._connect()
        self._on_commit(self.touched)
        self._task = asyncio.create_task(self._watch(), name="holdfast-watch")

    def _connect(self) -> None:
        try:
            self._fd = self._peers.open()
            asyncio.get_running_loop().add_reader(self._fd, self._receive)
        except (OSError, NotImplementedError) as error:
            log.info("the processes of this file exchange no datagrams: %s", error)

    def _disconnect(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._fd = -1
        self._peers.close()

    def start_over(self) -> None:
        """In a forked child: the socket belongs to the parent."""
        super().start_over()
        self._fd = -1
        self._peers.forget()

    async def stop(self) -> None:
        """Sends the hints that are left: a process may end right after a change."""
        for timer in self._timers.values():
            timer.cancel()
        if FEED in self._timers:
            self._send_touch()
        self._timers.clear()
        self._send_all()
        self._disconnect()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def mode(self) -> Mode:
        return self._mode

    def publish(self, topic: str) -> None:
        super().publish(topic)
        self._send_soon(topic, one=False)

    def notify_in_tx(self, topic: str, *, one: bool = False, must: bool = False) -> Notification:
        if must:
            self._lively_until = self._monotonic() + LIVELY_SECONDS
        return Notification(topic, "", number=1 if one else 0)

    def committed(self, notification: Notification) -> None:
        self._call_listeners(notification.topic, notification.topic)
        self._send_soon(notification.topic, one=notification.number == 1)

    def touched(self) -> None:
        """Call this after a commit of this process that changed data. While no other process is known, the
        watch looks for one: a process that starts reads the store anyway."""
        if not self._peers.has_others:
            self._owes_touch = True
            return
        if FEED in self._timers:
            return
        wait_seconds = self._touched_at + TOUCH_SECONDS - self._monotonic()
        if wait_seconds > 0.0:
            self._later(FEED, wait_seconds, self._send_touch)
        else:
            # After two turns of the loop: a worker that starts with this commit runs first.
            soon = asyncio.get_running_loop().call_soon
            self._timers[FEED] = soon(soon, self._send_touch)

    # -- sending -----------------------------------------------------------------------------------

    def _send_soon(self, topic: str, *, one: bool) -> None:
        if topic == FEED:
            self.touched()
            return
        self._outbox[topic] = one and topic not in self._outbox
        if WORK in self._timers:
            return
        wait_seconds = self._sent_at + SEND_SECONDS - self._monotonic()
        if wait_seconds <= 0.0:
            self._send_all()
        else:
            self._later(WORK, wait_seconds, self._send_all)

    def _send_touch(self) -> None:
        self._owes_touch = False
        self._timers.pop(FEED, None)
        self._touched_at = self._monotonic()
        self._peers.send(FEED)

    def _send_all(self) -> None:
        if timer := self._timers.pop(WORK, None):
            timer.cancel()
        self._sent_at = self._monotonic()
        outbox, self._outbox = self._outbox, {}
        for topic, one in outbox.items():
            self._peers.send(of_one(topic) if one else topic)

    def _later(self, key: str, seconds: float, send: Callable[[], None]) -> None:
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, send)

    # -- receiving ---------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Datagrams that arrive together become one hint for each topic."""
        hints: dict[str, str] = {}
        if not self._peers.has_others:
            self._peers.look()  # A process that has started sent these.
        for message in self._peers.receive():
            topic = message.partition(" ")[0]
            hints[topic] = topic if topic in hints else message
        for topic, hint in hints.items():
            self._call_listeners(topic, hint if is_of_one(hint) else topic)

    async def _watch(self) -> None:
        try:
            await self._watch_on()
        finally:
            self._disconnect()  # The event loop may end without a call of `stop`.

    async def _watch_on(self) -> None:
        previous: int | None = None
        while True:
            try:
                current = self._version()
            except Exception as error:
                if previous is not None or self._mode.pushing:
                    log.warning(
                        "the version of the file cannot be read, polling instead: %s", error
                    )
                previous, self._mode = None, Mode(False, f"the file cannot be watched: {error!r}")
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            self._mode = self._watching()
            if current != previous:
                self._changed(is_first=previous is None)
                previous = current
            if self._fd >= 0 and not self._peers.is_there():
                self._disconnect()
                self._connect()
            if self._owes_touch:
                self._send_touch()
            await asyncio.sleep(self._pause())

    def _changed(self, *, is_first: bool) -> None:
        super().publish(WORK)
        super().publish(FEED)
        if not is_first and self._lively_until > self._monotonic():
            # It may be a caller's own transaction in this process, for which no datagram was sent.
            self._send_soon(WORK, one=False)

    def _pause(self) -> float:
        is_lively = self._lively_until > self._monotonic()
        return WATCH_SECONDS if is_lively or self._fd < 0 else NET_SECONDS

    def _watching(self) -> Mode:
        every = f"the file's version is watched every {self._pause() * 1000:g} ms"
        return Mode(True, f"datagrams, and {every}" if self._fd >= 0 else every)
