"""Hints through PostgreSQL's NOTIFY, which proves itself.

Promises: a connection of its own; at the start and at intervals it sends itself a probe and must hear it;
when it does not, `mode` says "polling" and why, and it keeps reconnecting. NOTIFY serialises commits in
the server, so hints are few: some may ride along with enqueues at once, then one in `QUIET_SECONDS`; what
had none is covered by the next that rides, and if none does soon, a late one follows.
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
"""A process without workers need not hear of every enqueue, its own among them."""
QUIET_SECONDS: Final = 0.005
AT_ONCE: Final = 10
"""Hints that may ride right behind each other after a quiet time."""
UNTOLD_MAX: Final = 1_000
"""Rides of which nothing was heard yet; those that were rolled back never will."""
FOLLOW_SECONDS: Final = 2 * QUIET_SECONDS
FEED_SECONDS: Final = 0.02
PROBE_SECONDS: Final = 15.0
PROBE_WAIT_SECONDS: Final = 3.0
RECONNECT_SECONDS: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
log = logging.getLogger("holdfast.bus")


class PostgresBus(LocalBus):
    """See `holdfast.bus.port.Bus`."""

    def __init__(self, dsn: str, clock: Clock, name: str) -> None:
        super().__init__()
        self._dsn = dsn
        self._signature = f" by {name} "
        self._rides = 0
        self._untold: dict[int, None] = {}
        """What rides along says whose it is, and its number: listeners here hear it once, when it has landed
        or when it comes back over the wire, which tells also of those whose caller has given up."""
        self._clock = clock
        self._mode = Mode(False, "not connected yet")
        self._task: asyncio.Task[None] | None = None
        self._outbox: set[str] = set()
        self._needs_work = False
        self._stir = asyncio.Event()
        self._heard = asyncio.Event()
        self._lost = asyncio.Event()
        self._rode_at = 0.0
        self._spent_until = 0.0
        """Each ride costs `QUIET_SECONDS`; some may be taken on credit."""
        self._follow: asyncio.TimerHandle | None = None
        self._probes = 0
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def start(self) -> None:
        ready = asyncio.Event()
        # Events belong to the loop that waits for them; the one of an earlier start may have ended.
        self._stir, self._heard, self._lost = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._follow = None
        self._task = asyncio.create_task(self._run(ready), name="holdfast-listen")
        await ready.wait()

    async def stop(self) -> None:
        if self._follow is not None:
            self._follow.cancel()
            self._follow = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def start_over(self) -> None:
        """In a forked child: the parent listens on this connection, nobody here does."""
        super().start_over()
        if self._connection is not None:
            forget(self._connection)

    def mode(self) -> Mode:
        return self._mode

    def publish(self, topic: str) -> None:
        super().publish(topic)
        self._outbox.add(topic)
        self._stir.set()

    def subscribe(self, listener: Listener, *topics: str) -> Callable[[], None]:
        if not self._needs_work and (not topics or WORK in topics):
            self._needs_work = True
            self._stir.set()
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
        self._rides += 1
        self._untold[self._rides] = None
        if len(self._untold) > UNTOLD_MAX:
            del self._untold[next(iter(self._untold))]
        return Notification(topic, f"{hint}{self._signature}{self._rides}", now, self._rides)

    def committed(self, ride: Notification) -> None:
        if ride.hint:
            self._tell_once(ride.number, ride.hint)
            self._rode_at = max(self._rode_at, ride.began)
            return
        self._tell(ride.topic, ride.topic)
        if self._follow is None:
            now = self._clock.monotonic()
            call_later = asyncio.get_running_loop().call_later
            self._follow = call_later(FOLLOW_SECONDS, self._follow_up, ride.topic, now)

    def _tell_once(self, number: int, hint: str) -> None:
        if number in self._untold:
            del self._untold[number]
            self._tell(hint.partition(" ")[0], hint)

    def _follow_up(self, topic: str, since: float) -> None:
        """Whoever set out to ride since then has woken listeners that see all that was committed before."""
        self._follow = None
        if self._rode_at <= since:
            self._outbox.add(topic)
            self._stir.set()

    async def _run(self, ready: asyncio.Event) -> None:
        failures = 0
        while True:
            try:
                await self._session(ready)
            except Exception as error:
                # Whatever broke, listening goes on. Patience grows within one outage only.
                failures = 0 if self._mode.pushing else failures + 1
                self._mode = Mode(False, f"LISTEN is down: {error!r}")
                log.warning("wake-ups by NOTIFY are down, polling instead: %s", error)
            finally:
                ready.set()
            await self._clock.sleep(RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])

    async def _session(self, ready: asyncio.Event) -> None:
        """One connection, until it breaks."""
        # A time limit of the database is meant for others: a NOTIFY may wait for the commits before it.
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
            hears_work = await self._hear_work(connection)
            await self._probe(connection)
            ready.set()
            # Whatever was said while nobody listened is lost: look again.
            LocalBus.publish(self, WORK)
            LocalBus.publish(self, FEED)
            while not self._lost.is_set():
                await self._clock.wait(self._stir, PROBE_SECONDS)
                if self._stir.is_set():
                    hears_work = hears_work or await self._hear_work(connection)
                    await self._send(connection)
                else:
                    await self._probe(connection)
            raise ConnectionError("the server closed the connection")
        finally:
            self._connection = None
            connection.terminate()

    async def _hear_work(self, connection: asyncpg.Connection[asyncpg.Record]) -> bool:
        if self._needs_work:
            await connection.add_listener(WORK_CHANNEL, self._receive)
            LocalBus.publish(self, WORK)
        return self._needs_work

    def _ended(self, _connection: object) -> None:
        self._lost.set()
        self._stir.set()

    async def _send(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """What gathered, each topic once; then a pause, so that hints stay few."""
        self._stir.clear()
        topics, self._outbox = self._outbox, set()
        for topic in sorted(topics):
            channel = WORK_CHANNEL if topic == WORK else CHANNEL
            await connection.execute("SELECT pg_notify($1, $2)", channel, topic)
        await self._clock.sleep(FEED_SECONDS)

    async def _probe(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._probes += 1
        self._heard.clear()
        await connection.execute(
            "SELECT pg_notify($1, $2)", CHANNEL, f"probe {id(self)} {self._probes}"
        )
        if not await self._clock.wait(self._heard, PROBE_WAIT_SECONDS):
            raise TimeoutError("a probe was sent but did not come back (a pooler in between?)")
        self._mode = Mode(True, "LISTEN/NOTIFY, proved by a probe")

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        text = str(payload)
        if text == f"probe {id(self)} {self._probes}":
            self._heard.set()
        elif self._signature in text:
            self._tell_once(int(text.rpartition(" ")[2]), text)
        elif not text.startswith("probe "):
            self._tell(text.partition(" ")[0], text)
