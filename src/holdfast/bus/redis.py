"""Hints through Redis Pub/Sub, beside another bus.

For many gateways: a hint that one of them publishes reaches all, also hints that the other bus limits. The
other bus stays in use, so Redis may be absent, wiped or restarted at any moment: then only its hints are
missing, and listeners poll.
Promises: a separate connection receives, and pings check it. After each connect the listeners
of this process are called, because hints of the time without a connection are lost. A stop sends the hints
that are left: a process may end right after a change.
Never: carries data; a hint is the name of a topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.bus.local import LocalBus
from holdfast.bus.port import FEED, WORK, Bus, Listener, Mode, Notification
from holdfast.clock import Clock
from holdfast.core.address import check_address, check_url, is_redis, shown_url
from holdfast.errors import BadConfig, MissingExtra

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.client import PubSub

CHANNEL: Final = "holdfast:hint"
"""Stores that share a Redis share the channel: a hint about another store costs one look."""
SPREAD_SECONDS: Final = 0.005
"""Hints about one topic within this time are sent once."""
PING_SECONDS: Final = 5.0
TIMEOUT_SECONDS: Final = 3.0
STOP_SECONDS: Final = 1.0
"""How long a stop waits for the last hints to be sent."""
RECONNECT_SECONDS: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
TEXT_CHARS_MAX: Final = 300
log = logging.getLogger("holdfast.bus")


class RedisBus:
    """See `holdfast.bus.port.Bus`. `inner` is the bus of the store."""

    def __init__(self, url: str, inner: Bus, clock: Clock) -> None:
        self._client: Redis = client_for(url)
        self._shown = shown_url(url)
        self._inner = inner
        self._clock = clock
        self._local = LocalBus()
        self._mode = Mode(False, "not connected to Redis yet")
        self._outbox: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._receiver: asyncio.Task[None] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._is_stopping = False

    async def start(self) -> None:
        await self._inner.start()
        self._is_stopping = False
        self._wake = asyncio.Event()
        ready = asyncio.Event()
        self._receiver = asyncio.create_task(self._receive_on(ready), name="holdfast-redis-listen")
        self._sender = asyncio.create_task(self._send_on(), name="holdfast-redis-send")
        await ready.wait()

    async def stop(self) -> None:
        # The client may end a call that is cancelled with another error: the loops also look at this.
        self._is_stopping = True
        self._wake.set()
        try:
            if self._sender is not None:
                await asyncio.wait({self._sender}, timeout=STOP_SECONDS)
        finally:
            tasks = [task for task in (self._receiver, self._sender) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._receiver = self._sender = None
            await self._client.aclose()
            await self._inner.stop()

    def mode(self) -> Mode:
        inner = self._inner.mode()
        if self._mode.pushing or inner.pushing:
            return Mode(True, f"{inner.why}; {self._mode.why}")
        return inner

    def publish(self, topic: str) -> None:
        self._inner.publish(topic)
        self._send(topic)

    def subscribe(self, listener: Listener, *topics: str) -> Callable[[], None]:
        ends = (self._inner.subscribe(listener, *topics), self._local.subscribe(listener, *topics))

        def end() -> None:
            for each in ends:
                each()

        return end

    def notify_in_tx(self, topic: str, *, one: bool = False, must: bool = False) -> Notification:
        return self._inner.notify_in_tx(topic, one=one, must=must)

    def committed(self, notification: Notification) -> None:
        self._inner.committed(notification)
        self._send(notification.topic)

    # -- sending -----------------------------------------------------------------------------------

    def _send(self, topic: str) -> None:
        self._outbox[topic] = None
        self._wake.set()

    async def _send_on(self) -> None:
        while self._outbox or not self._is_stopping:
            await self._wake.wait()
            self._wake.clear()
            topics, self._outbox = self._outbox, {}
            if topics and self._mode.pushing:
                try:
                    await self._publish(topics)
                except Exception as error:
                    # The receiver notices the outage and reports it. A lost hint costs one poll.
                    log.debug("a hint was not sent to Redis: %s", error)
                    if self._is_stopping:
                        return
            if not self._is_stopping:
                await self._clock.sleep(SPREAD_SECONDS)

    async def _publish(self, topics: dict[str, None]) -> None:
        async with self._client.pipeline(transaction=False) as pipeline:
            for topic in topics:
                pipeline.publish(CHANNEL, topic)
            await pipeline.execute()

    # -- receiving ---------------------------------------------------------------------------------

    async def _receive_on(self, ready: asyncio.Event) -> None:
        failures = 0
        while not self._is_stopping:
            try:
                await self._session(ready)
            except Exception as error:
                failures = 0 if self._mode.pushing else failures + 1
                if self._mode.pushing or failures == 1:
                    log.warning("hints through Redis (%s) are down: %s", self._shown, error)
                self._mode = Mode(False, "Redis is away")
            finally:
                ready.set()
            if not self._is_stopping:
                await self._clock.sleep(
                    RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)]
                )

    async def _session(self, ready: asyncio.Event) -> None:
        """One subscription, until its connection breaks."""
        async with self._client.pubsub() as pubsub:
            await pubsub.subscribe(CHANNEL)
            while True:
                message = await self._next(pubsub)
                if message is None:
                    await asyncio.wait_for(pubsub.ping(), TIMEOUT_SECONDS)
                    pong = await self._next(pubsub, TIMEOUT_SECONDS)
                    if pong is None:
                        raise ConnectionError("a ping was not answered")
                    message = pong
                if message["type"] == "subscribe":
                    self._mode = Mode(True, "Redis Pub/Sub")
                    ready.set()
                    # Hints of the time without a connection are lost: listeners must read the store.
                    self._local.publish(WORK)
                    self._local.publish(FEED)
                elif message["type"] == "message":
                    self._deliver(message["data"])

    async def _next(self, pubsub: PubSub, seconds: float = PING_SECONDS) -> dict[str, Any] | None:
        message: dict[str, Any] | None = await pubsub.get_message(timeout=seconds)
        return message

    def _deliver(self, data: bytes) -> None:
        if len(data) <= TEXT_CHARS_MAX:
            self._local.publish(data.decode("utf-8", "replace"))


def client_for(url: str) -> Redis:
    """A client of this Redis, which connects when it is used. Raises BadConfig and MissingExtra."""
    if not is_redis(check_address(url)):
        raise BadConfig(
            f"'{shown_url(url)}' is not the address of a Redis: use redis://host:port/0"
        )
    check_url(url)
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        raise MissingExtra("Redis needs redis-py: pip install 'holdfast[redis]'") from None
    client: Redis = Redis.from_url(
        url,
        socket_connect_timeout=TIMEOUT_SECONDS,
        socket_timeout=TIMEOUT_SECONDS + PING_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
    return client


async def silence_of(url: str, seconds: float) -> str | None:
    """Why a Redis does not answer within the time. None: it does."""
    client = client_for(url)
    try:
        async with asyncio.timeout(seconds):
            await client.ping()
    except Exception as error:  # of the client, of the network, or the timeout
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    finally:
        await client.aclose()
    return None
