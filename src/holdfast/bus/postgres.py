"""Hints through PostgreSQL's NOTIFY, verified by probes.

Promises: the bus has a dedicated connection. At the start and at intervals it sends itself a probe. When the
probe does not come back, `mode` reports polling and the reason, and the bus reconnects. NOTIFY serialises
commits in the server, so hints are rate-limited: a burst of enqueues may each send a NOTIFY in their
transaction, then one every `QUIET_SECONDS`, or fewer if such commits take long, because they wait for those
of other processes. A commit without a NOTIFY is covered by the next one; if there is none soon, a separate
NOTIFY follows, which syncs nothing. A stop sends the hints that are left: a process may end right after a
change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import asyncpg

from holdfast.bus.local import LocalBus
from holdfast.bus.port import FEED, WORK, Listener, Mode, Notification, of_one
from holdfast.clock import Clock
from holdfast.forks import forget

CHANNEL: Final = "holdfast"
WORK_CHANNEL: Final = "holdfast_work"
"""A separate channel, so that a process without workers does not receive a hint for every enqueue."""
QUIET_SECONDS: Final = 0.005
AT_ONCE: Final = 10
"""The size of a burst of notifications after a quiet time."""
HINT_COST: Final = 2.0
"""A notification costs this many times the duration of its commit. So a process that writes one commit after
the other spends at most half of its time in the line of all commits with a NOTIFY."""
PENDING_MAX: Final = 1_000
"""A bound on the notifications that did not come back yet. Those of a rollback never come back."""
FOLLOW_SECONDS: Final = 2 * QUIET_SECONDS
FEED_SECONDS: Final = 0.02
PROBE_SECONDS: Final = 15.0
PROBE_WAIT_SECONDS: Final = 3.0
STOP_SECONDS: Final = 1.0
"""How long a stop waits for the last hints to be sent."""
RECONNECT_SECONDS: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
log = logging.getLogger("holdfast.bus")


class PostgresBus(LocalBus):
    """See `holdfast.bus.port.Bus`."""

    def __init__(self, dsn: str, clock: Clock, name: str) -> None:
        super().__init__()
        self._dsn = dsn
        self._signature = f" by {name} "
        self._count = 0
        self._pending: dict[int, None] = {}
        """Numbers of the notifications that listeners of this process have not received. A NOTIFY carries
        the signature of this bus and its number. Listeners are called once: by `committed`, or when the
        NOTIFY comes back from the server, which covers a caller that was cancelled during its commit."""
        self._clock = clock
        self._mode = Mode(False, "not connected yet")
        self._task: asyncio.Task[None] | None = None
        self._outbox: set[str] = set()
        self._needs_work = False
        self._wake = asyncio.Event()
        self._probe_received = asyncio.Event()
        self._lost = asyncio.Event()
        self._stopping = asyncio.Event()
        self._notified_at = 0.0
        """When the last transaction with a NOTIFY that was committed began. It covers all commits before."""
        self._silent_at = 0.0
        """When the last transaction without a NOTIFY was committed."""
        self._spent_until = 0.0
        """Each notification costs `QUIET_SECONDS` or more, up to `AT_ONCE` times that in advance."""
        self._took = 0.0
        """The duration of the last commit with a notification."""
        self._follow: asyncio.TimerHandle | None = None
        self._probes = 0
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def start(self) -> None:
        ready = asyncio.Event()
        # An asyncio event belongs to the loop that waits for it. The loop of an earlier start may have ended.
        self._wake, self._probe_received = asyncio.Event(), asyncio.Event()
        self._lost, self._stopping = asyncio.Event(), asyncio.Event()
        self._follow = None
        self._task = asyncio.create_task(self._run(ready), name="holdfast-listen")
        await ready.wait()

    async def stop(self) -> None:
        if self._follow is not None:
            self._follow.cancel()
            self._follow = None
            self._outbox.add(WORK)
        if self._task is None:
            return
        self._stopping.set()
        self._wake.set()
        try:
            if self._connection is not None:
                await asyncio.wait({self._task}, timeout=STOP_SECONDS)
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def start_over(self) -> None:
        """In a forked child: the connection belongs to the parent."""
        super().start_over()
        if self._connection is not None:
            forget(self._connection)

    def mode(self) -> Mode:
        return self._mode

    def publish(self, topic: str) -> None:
        super().publish(topic)
        self._outbox.add(topic)
        self._wake.set()

    def subscribe(self, listener: Listener, *topics: str) -> Callable[[], None]:
        if not self._needs_work and (not topics or WORK in topics):
            self._needs_work = True
            self._wake.set()
        return super().subscribe(listener, *topics)

    def notify_in_tx(self, topic: str, *, one: bool = False, must: bool = False) -> Notification:
        now = self._clock.monotonic()
        spent_until = max(now, self._spent_until)
        if not must and spent_until - now > QUIET_SECONDS * (AT_ONCE - 1):
            return Notification(topic, "", now)
        self._spent_until = spent_until + QUIET_SECONDS
        hint = of_one(topic) if one else topic
        if must:
            return Notification(topic, hint, now)
        self._count += 1
        self._pending[self._count] = None
        if len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]
        return Notification(topic, f"{hint}{self._signature}{self._count}", now, self._count)

    def committed(self, notification: Notification) -> None:
        if notification.hint:
            self._deliver_once(notification.number, notification.hint)
            self._notified_at = max(self._notified_at, notification.began)
            self._charge(self._clock.monotonic() - notification.began)
            return
        self._call_listeners(notification.topic, notification.topic)
        self._silent_at = self._clock.monotonic()
        if self._follow is None:
            self._follow_later(notification.topic, self._silent_at)

    def _charge(self, took: float) -> None:
        """A single slow commit costs nothing: it waited for something else."""
        cost, self._took = HINT_COST * min(took, self._took), took
        self._spent_until += max(0.0, cost - QUIET_SECONDS)

    def _deliver_once(self, number: int, hint: str) -> None:
        if number in self._pending:
            del self._pending[number]
            self._call_listeners(hint.partition(" ")[0], hint)

    def _follow_later(self, topic: str, since: float) -> None:
        """Looks at the end of `FOLLOW_SECONDS` whether a NOTIFY covers the commits since this time."""
        seconds = max(0.0, since + FOLLOW_SECONDS - self._clock.monotonic())
        call_later = asyncio.get_running_loop().call_later
        self._follow = call_later(seconds, self._follow_up, topic, since)

    def _follow_up(self, topic: str, since: float) -> None:
        """Sends the hint, unless a later NOTIFY already covers the commits since this time. Commits behind
        that NOTIFY wait for the next one just as long."""
        self._follow = None
        if self._notified_at <= since:
            self._outbox.add(topic)
            self._wake.set()
        elif self._notified_at <= self._silent_at:
            self._follow_later(topic, self._notified_at)

    async def _run(self, ready: asyncio.Event) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                await self._session(ready)
            except Exception as error:
                # Reconnect after any error. The pause grows only within one outage.
                failures = 0 if self._mode.pushing else failures + 1
                self._mode = Mode(False, f"LISTEN is down: {error!r}")
                log.warning("wake-ups by NOTIFY are down, polling instead: %s", error)
            finally:
                ready.set()
            pause = RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)]
            await self._clock.wait(self._stopping, pause)

    async def _session(self, ready: asyncio.Event) -> None:
        """One connection, until it breaks or the bus has stopped."""
        # No statement timeout of the database: a NOTIFY may have to wait for earlier commits.
        connection = await asyncpg.connect(
            self._dsn,
            timeout=10,
            command_timeout=10,
            server_settings={"statement_timeout": "0"},
        )
        self._connection = connection
        try:
            self._lost.clear()
            connection.add_termination_listener(self._ended)
            await connection.add_listener(CHANNEL, self._receive)
            hears_work = await self._listen_for_work(connection)
            await self._probe(connection)
            ready.set()
            # Hints of the time without a connection are lost: listeners must read the store.
            LocalBus.publish(self, WORK)
            LocalBus.publish(self, FEED)
            while not self._lost.is_set():
                await self._clock.wait(self._wake, PROBE_SECONDS)
                if self._wake.is_set():
                    hears_work = hears_work or await self._listen_for_work(connection)
                    await self._send(connection)
                    if self._stopping.is_set() and not self._outbox:
                        return
                else:
                    await self._probe(connection)
            raise ConnectionError("the server closed the connection")
        finally:
            self._connection = None
            connection.terminate()

    async def _listen_for_work(self, connection: asyncpg.Connection[asyncpg.Record]) -> bool:
        if self._needs_work:
            await connection.add_listener(WORK_CHANNEL, self._receive)
            LocalBus.publish(self, WORK)
        return self._needs_work

    def _ended(self, _connection: object) -> None:
        self._lost.set()
        self._wake.set()

    async def _send(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Sends each topic in the outbox once. The pause after it limits the rate of hints."""
        self._wake.clear()
        topics, self._outbox = self._outbox, set()
        for topic in sorted(topics):
            channel = WORK_CHANNEL if topic == WORK else CHANNEL
            await connection.execute("SELECT pg_notify($1, $2)", channel, topic)
        await self._clock.wait(self._stopping, FEED_SECONDS)

    async def _probe(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._probes += 1
        self._probe_received.clear()
        await connection.execute(
            "SELECT pg_notify($1, $2)", CHANNEL, f"probe {id(self)} {self._probes}"
        )
        if not await self._clock.wait(self._probe_received, PROBE_WAIT_SECONDS):
            raise TimeoutError("a probe was sent but did not come back (a pooler in between?)")
        self._mode = Mode(True, "LISTEN/NOTIFY, verified by a probe")

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        text = str(payload)
        if text == f"probe {id(self)} {self._probes}":
            self._probe_received.set()
        elif self._signature in text:
            self._deliver_once(int(text.rpartition(" ")[2]), text)
        elif not text.startswith("probe "):
            self._call_listeners(text.partition(" ")[0], text)
