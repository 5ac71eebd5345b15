"""What the live feed needs from the rest of the gateway.

The feed reads events from a `FeedSource`, identities from a `Session`, and objects from a `Directory`. A
cache, such as a Redis stream, can be put before the store as another `FeedSource`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.core.access import Principal
from holdfast.core.channel import Channel, ChannelObject
from holdfast.core.event import Event, Position
from holdfast.core.subscription import FeedBounds, StreamReset
from holdfast.store.feed import Page, Reset, Skimmed

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


TICKET: Final = "ticket"
"""The parameter of the URL that carries a ticket."""


class FeedSource(Protocol):
    """Where events come from. Any source of one feed returns the same events at the same positions."""

    async def read(self, after: Position, limit: int) -> Page | Reset:
        """Up to `limit` events after a position. Raises StoreUnavailable."""
        ...

    async def skim(self, after: Position, limit: int, prefixes: Collection[str]) -> Skimmed | Reset:
        """Passes up to `limit` events, and says which of the prefixes their kinds have. Raises
        StoreUnavailable."""
        ...

    async def history(self, task_id: str, *, after: int, through: int) -> list[Event] | None:
        """The events of one task with `after` < offset <= `through`. None if they may be incomplete: read the
        feed page by page instead."""
        ...

    async def bounds(self) -> FeedBounds:
        """What can be read."""
        ...

    def now(self) -> float:
        """The clock that stamped the events."""
        ...


class Session(Protocol):
    """The credential of one connection."""

    @property
    def principal(self) -> Principal: ...

    async def renewed(self) -> Session | None:
        """The same credential, read again. None: it has expired or was revoked."""
        ...

    def close(self) -> None:
        """The connection has ended: it no longer counts for its token."""
        ...


class FeedDoor(Protocol):
    """Turns credentials into sessions. Raises Unauthenticated, Forbidden (origin) or RateLimited
    (connections of a token)."""

    async def connect(self, connection: HTTPConnection) -> Session:
        """By header, ticket or cookie. Checks the origin and counts the connection of the token."""
        ...

    async def by_token(self, token: str) -> Session:
        """For the frame `auth`."""
        ...


class Directory(Protocol):
    """Looks up the object of a channel."""

    async def find(self, channel: Channel, principal: Principal) -> ChannelObject | None:
        """The object; None if there is none. A client id of a task is looked up in the projects of the
        principal: AmbiguousId if several of them have it."""
        ...

    def snapshot(
        self, channel: Channel, found: ChannelObject, principal: Principal
    ) -> AsyncIterator[dict[str, Any]]:
        """The state of the object in one or more parts, as far as the principal may see it."""
        ...


Prepare = Callable[[Sequence[Event]], Awaitable[Sequence[Event]]]
"""Called once for each page before it is encoded: redacts, and adds what an event has elsewhere."""


async def unchanged(events: Sequence[Event]) -> Sequence[Event]:
    return events


class Outlet(Protocol):
    """The way to one client. Written data is queued by reference; a write never waits."""

    def write(self, data: bytes) -> None: ...

    def buffered(self) -> int:
        """Bytes that the client has not taken."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Ends the connection after what is queued, or at once if the client does not read it in time."""
        ...


class Watched(Protocol):
    """A connection, as the broadcaster sees it."""

    def tick(self, now: float) -> int:
        """Called each second. Returns the bytes that the client has not taken."""
        ...

    def slowest(self) -> int | None:
        """The offset up to which its slowest subscription has read. None: all are live."""
        ...

    def park(self) -> None:
        """Its buffer is full: its subscriptions leave their lanes."""
        ...

    def reset_all(self, reason: StreamReset) -> None: ...

    def recheck(self) -> None:
        """Its credential may have changed."""
        ...
