"""Starts subscriptions: authorise, snapshot or replay, then live.

Promises: the position of a snapshot was read before its data. A position that cannot be continued is answered
with a reset and its reason. An object that does not exist and a foreign one get the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.core.access import ALL_PROJECTS, DenialReason, Denied, Principal, visible_projects
from holdfast.core.channel import Channel, ChannelKind
from holdfast.core.event import Position
from holdfast.core.event_kinds import EventClass
from holdfast.core.search import Query
from holdfast.core.subscription import MERGE_SECONDS, StreamFilter, StreamReset, start_at
from holdfast.core.wire import parse_position
from holdfast.gateway.feed.broadcaster import Broadcaster
from holdfast.gateway.feed.connection import Connection, Subscription
from holdfast.gateway.feed.frames import Style
from holdfast.gateway.feed.lanes import LaneKey, Member
from holdfast.gateway.feed.targets import Target, filter_for, find_targets

NOW: Final = "now"
QUERY_ID: Final = "query"
"""The name of a subscription to a query without a channel."""


class Wish(msgspec.Struct, frozen=True):
    """What a client wants to receive."""

    channels: tuple[Channel, ...]
    id: str
    shown: str
    """The channel as the client wrote it."""
    position: str | None = None
    snapshot: bool = False
    kinds: tuple[str, ...] = ()
    classes: frozenset[EventClass] = frozenset()
    merge_seconds: float = MERGE_SECONDS
    query: Query | None = None


def project_channels(principal: Principal) -> tuple[Channel, ...]:
    """All that a principal may read of tasks."""
    projects = visible_projects(principal)
    names = [ALL_PROJECTS] if projects is None else sorted(projects)
    return tuple(Channel(ChannelKind.PROJECT, name) for name in names)


async def subscribe(connection: Connection, wish: Wish) -> Denied | None:
    """Starts a subscription of a connection, or writes why it is reset. Returns why it is denied. Raises
    InvalidInput."""
    broadcaster = connection.broadcaster
    after = None if wish.position in (None, NOW) else parse_position("position", wish.position)
    style = Style(wish.id, wish.shown, broadcaster.epoch, connection.wrap)
    targets = await find_targets(connection.directory, connection.session.principal, wish.channels)
    if isinstance(targets, Denied):
        if after is None or targets.reason is not DenialReason.PROJECT:
            return targets
        connection.write_reset(style, StreamReset.GONE)
        return None
    start = await start_offset(broadcaster, after)
    if isinstance(start, StreamReset):
        connection.write_reset(style, start)
        return None
    mode = "snapshot" if wish.snapshot else "live" if after is None else "replay"
    connection.outlet.write(style.subscribed(mode, start))
    if wish.snapshot:
        await _snapshot(connection, style, targets, start)
    if connection.is_closed:
        return None
    if style.epoch != broadcaster.epoch:
        connection.write_reset(style, StreamReset.EPOCH)
        return None
    like = StreamFilter(frozenset(), None, wish.kinds, wish.classes, wish.query)
    wanted = filter_for(connection.session.principal, targets, like)
    key = LaneKey(wanted, wish.id, wish.shown, connection.transport, wish.merge_seconds)
    member = Member(connection.outlet, start_at(start))
    connection.add(Subscription(member, targets, key, style))
    return None


async def start_offset(broadcaster: Broadcaster, after: Position | None) -> int | StreamReset:
    """The offset to start after."""
    if after is None:
        return broadcaster.boundary
    if after.epoch != broadcaster.epoch:
        return StreamReset.EPOCH
    if after.offset > broadcaster.head:
        # The position may come from a response that was read from the store a moment ago.
        await broadcaster.refresh()
        if after.epoch != broadcaster.epoch:
            return StreamReset.EPOCH
        if after.offset > broadcaster.head:
            return StreamReset.AHEAD
    return after.offset


async def _snapshot(
    connection: Connection, style: Style, targets: Sequence[Target], offset: int
) -> None:
    """Writes the parts of a snapshot. Each waits while the client reads nothing."""
    part = 0
    before: object = None
    for target in targets:
        principal = connection.session.principal
        parts = connection.directory.snapshot(target.channel, target.found, principal)
        async for payload in parts:
            if part:
                connection.outlet.write(style.snapshot(offset, part, before, last=False))
                await connection.writable()
            if connection.is_closed:
                return
            part, before = part + 1, payload
    connection.outlet.write(style.snapshot(offset, max(part, 1), before, last=True))
