"""The live feed of a gateway, as the server mounts it."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from holdfast.core import close_codes
from holdfast.core.subscription import FlowBounds
from holdfast.gateway.feed.broadcaster import Broadcaster
from holdfast.gateway.feed.connection import Connection
from holdfast.gateway.feed.frames import Wrapping, as_message
from holdfast.gateway.feed.outlets import QueueOutlet
from holdfast.gateway.feed.ports import Directory, FeedDoor, Session
from holdfast.gateway.feed.requests import FRAME_BYTES_MAX, PING_SECONDS
from holdfast.gateway.feed.server_frames import FrameLimits, Hello

SUBSCRIPTIONS_MAX: Final = 200
GATEWAY_CONNECTIONS_MAX: Final = 20_000
"""Connections of one gateway: of the feed and of workers together."""
BUFFER_TOTAL_BYTES: Final = 268_435_456
PONG_SECONDS: Final = 10
RETRY_MS_MAX: Final = 5_000


class FeedNames(msgspec.Struct, frozen=True):
    """What `hello` says about the server."""

    server: str = ""
    gateway: str = ""


class LiveFeed:
    """The broadcaster with what its transports need. `start` it before the first connection."""

    def __init__(
        self,
        broadcaster: Broadcaster,
        door: FeedDoor,
        directory: Directory,
        *,
        names: FeedNames | None = None,
        flow: FlowBounds | None = None,
        connections_max: int = GATEWAY_CONNECTIONS_MAX,
        buffer_total_bytes: int = BUFFER_TOTAL_BYTES,
        frame_bytes: int = FRAME_BYTES_MAX,
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        self.broadcaster = broadcaster
        self.door = door
        self.frame_bytes = frame_bytes
        """The largest frame of a client."""
        self._ping_seconds = ping_seconds
        self.directory = directory
        self.names = names or FeedNames()
        self.flow = flow or FlowBounds()
        self._connections_max = connections_max
        self._buffer_total_bytes = buffer_total_bytes

    async def start(self) -> None:
        await self.broadcaster.start()

    async def stop(self) -> None:
        """Closes all connections with 1001. Each is asked to come back at another moment."""
        connections = [
            each for each in self.broadcaster.connections if isinstance(each, Connection)
        ]
        for number, connection in enumerate(connections):
            # Spreads the reconnects evenly.
            retry = RETRY_MS_MAX * (number + 1) // (len(connections) + 1)
            connection.close(close_codes.GOING_AWAY, "the server stops", retry_after_ms=retry)
        await asyncio.sleep(0)
        await self.broadcaster.stop()

    def queued(
        self, session: Session, wrap: Wrapping, transport: str
    ) -> tuple[Connection, QueueOutlet]:
        """A connection whose frames are taken from a queue. The caller opens it."""
        outlet = QueueOutlet(self.flow, b"\n" if wrap is as_message else b"\n\n")
        connection = Connection(
            self.broadcaster,
            self.directory,
            session,
            outlet,
            wrap=wrap,
            transport=transport,
            bounds=self.flow,
        )
        outlet.on_full, outlet.on_drained = connection.full, connection.drained
        return connection, outlet

    def is_full(self) -> bool:
        """Whether no further connection is accepted."""
        broadcaster = self.broadcaster
        return (
            len(broadcaster.connections) >= self._connections_max
            or broadcaster.buffered > self._buffer_total_bytes
        )

    def hello(self, session: Session) -> Hello:
        """The first frame."""
        bounds = self.broadcaster.bounds
        return Hello(
            protocol="holdfast.v1",
            server=self.names.server,
            gateway=self.names.gateway,
            principal=session.principal.name,
            epoch=bounds.head.epoch,
            head=str(bounds.head),
            oldest=str(bounds.oldest),
            ping_seconds=self._ping_seconds,
            limits=FrameLimits(
                frame_bytes=self.frame_bytes,
                subscriptions=SUBSCRIPTIONS_MAX,
                buffer_bytes=self.flow.high_bytes,
            ),
        )
