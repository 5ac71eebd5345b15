"""One client of the live feed: its subscriptions, and how each catches up.

Promises: a subscription has one cursor. It is in a lane while it is live. Otherwise the pump of the
connection reads for it: from the ring, from the history of its task, or from the store page by page. When it
has read all, at the end of a transaction, it joins its lane. A full buffer parks the connection: its
subscriptions leave their lanes and catch up when the client has read a part. Nothing is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from holdfast.core import close_codes
from holdfast.core.access import DenialReason, Denied
from holdfast.core.channel import (
    ChannelKind,
)
from holdfast.core.subscription import (
    Flow,
    FlowBounds,
    StreamReset,
    after_bookmark,
    after_frame,
    after_reading,
    bookmark_at,
    flow_after,
    is_stalled,
)
from holdfast.errors import StoreUnavailable
from holdfast.gateway.feed.broadcaster import Broadcaster
from holdfast.gateway.feed.entries import Entry
from holdfast.gateway.feed.frames import Style, Wrapping, wrapped
from holdfast.gateway.feed.lanes import Lane, LaneKey, Matcher, Member, merged_entries
from holdfast.gateway.feed.ports import Directory, Outlet, Session
from holdfast.gateway.feed.reading import next_page
from holdfast.gateway.feed.server_frames import Bye
from holdfast.gateway.feed.targets import Target, filter_for, find_targets

WS: Final = "ws"
SSE: Final = "sse"
POLL: Final = "poll"
RECHECK_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 1.0
log = logging.getLogger("holdfast.feed")


class Subscription(Member):
    """One subscription of a connection: to one channel, or for SSE to several."""

    __slots__ = ("is_new", "key", "lane", "matches", "style", "targets")

    def __init__(
        self, member: Member, targets: Sequence[Target], key: LaneKey, style: Style
    ) -> None:
        super().__init__(member.outlet, member.cursor)
        self.targets = targets
        self.lane: Lane | None = None
        self.is_new = True
        """Whether no frame has said yet that the subscription is live."""
        self.shape(key, style)

    def shape(self, key: LaneKey, style: Style) -> None:
        """Sets what it receives and how that looks."""
        self.key = key
        self.style = style
        self.matches = Matcher(key.filter).matches

    @property
    def task_id(self) -> str | None:
        """The task, if it is about one task only."""
        target = self.targets[0]
        if len(self.targets) > 1 or target.channel.kind is not ChannelKind.TASK:
            return None
        return target.found.topic.partition(":")[2]


class Connection:
    """See the module."""

    def __init__(
        self,
        broadcaster: Broadcaster,
        directory: Directory,
        session: Session,
        outlet: Outlet,
        *,
        wrap: Wrapping,
        transport: str,
        bounds: FlowBounds | None = None,
    ) -> None:
        self.broadcaster = broadcaster
        self.directory = directory
        self.session = session
        self.outlet = outlet
        self.wrap = wrap
        self.transport = transport
        self.subscriptions: dict[str, Subscription] = {}
        self.is_closed = False
        self.ends_with_reset = transport in (SSE, POLL)
        self._bounds = bounds or FlowBounds()
        self._flow = Flow()
        self._drained = asyncio.Event()
        self._drained.set()
        self._behind: dict[Subscription, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_pumping = False
        self._is_checking = False
        # Connections that were made together are not checked together.
        first_recheck_seconds = RECHECK_SECONDS * (1.0 - next(broadcaster.spread))
        self._recheck_at = broadcaster.clock.monotonic() + first_recheck_seconds

    def open(self) -> None:
        self.broadcaster.connections[self] = None
        self.broadcaster.meter.connected(self.transport, 1)

    def lost(self) -> None:
        """The client has gone: nothing is written to it any more."""
        self.is_closed = True
        for subscription in list(self.subscriptions.values()):
            self.end(subscription)
        self._drained.set()

    async def shut(self) -> None:
        """Ends everything that the connection runs."""
        self.lost()
        if self in self.broadcaster.connections:
            del self.broadcaster.connections[self]
            self.broadcaster.meter.connected(self.transport, -1)
            if self._flow.is_parked:
                self.broadcaster.meter.parked(-1)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.session.close()

    def close(self, code: int, reason: str, *, retry_after_ms: int | None = None) -> None:
        """Says goodbye and closes."""
        if self.is_closed:
            return
        bye = Bye(reason=reason, code=code, retry_after_ms=retry_after_ms)
        self.outlet.write(wrapped(self.wrap, bye))
        self.lost()
        self.broadcaster.meter.closed(code)
        self.outlet.close(code, reason)

    # -- subscriptions -----------------------------------------------------------------------------

    def add(self, subscription: Subscription) -> None:
        """Starts a subscription whose `subscribed` frame was written."""
        self.subscriptions[subscription.key.id] = subscription
        self._catch_up(subscription)

    def end(self, subscription: Subscription) -> None:
        subscription.is_open = False
        self.subscriptions.pop(subscription.key.id, None)
        self._behind.pop(subscription, None)
        self._leave(subscription)

    def reset(self, subscription: Subscription, reason: StreamReset) -> None:
        """Ends a subscription that cannot continue."""
        self.end(subscription)
        self.write_reset(subscription.style, reason)

    def write_reset(self, style: Style, reason: StreamReset) -> None:
        """Says that a subscription must start over. A stream of one subscription ends with it."""
        self.broadcaster.meter.reset(reason.value)
        bounds = self.broadcaster.bounds
        self.outlet.write(style.reset(reason, bounds.head, bounds.oldest))
        if self.ends_with_reset:
            self.lost()
            self.outlet.close(1000, "reset")

    def reset_all(self, reason: StreamReset) -> None:
        for subscription in list(self.subscriptions.values()):
            self.reset(subscription, reason)

    def _leave(self, subscription: Subscription) -> None:
        if subscription.lane is not None:
            self.broadcaster.leave(subscription.lane, subscription)
            subscription.lane = None

    # -- flow --------------------------------------------------------------------------------------

    def full(self) -> None:
        """The outlet passed its high mark, perhaps in a write of the broadcaster, which parks after it."""
        self.broadcaster.full.append(self)

    def park(self) -> None:
        """Takes the subscriptions out of their lanes until the client has read a part."""
        flow = self._looked()
        if self.is_closed or not flow.is_parked:
            return
        self._drained.clear()
        for subscription in self.subscriptions.values():
            if subscription.lane is not None:
                self._leave(subscription)
                self._behind[subscription] = None

    def drained(self) -> None:
        """The outlet fell to its low mark."""
        self._looked()
        if not self._flow.is_parked and not self._drained.is_set():
            self._drained.set()
            self._pump()

    def _looked(self) -> Flow:
        was_parked = self._flow.is_parked
        now = self.broadcaster.clock.monotonic()
        self._flow = flow_after(self._flow, self.outlet.buffered(), now, self._bounds)
        if self._flow.is_parked != was_parked:
            self.broadcaster.meter.parked(1 if self._flow.is_parked else -1)
        return self._flow

    async def writable(self) -> None:
        """Waits while the connection is parked."""
        self.broadcaster.park_full()
        await self._drained.wait()

    # -- catching up -------------------------------------------------------------------------------

    def _catch_up(self, subscription: Subscription) -> None:
        self._behind[subscription] = None
        self._pump()

    def _pump(self) -> None:
        if self._behind and not self._is_pumping and not self.is_closed:
            self._is_pumping = True
            self._spawn(self._pump_on())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _pump_on(self) -> None:
        try:
            while self._behind and not self.is_closed:
                await self.writable()
                for subscription in list(self._behind):
                    if subscription.is_open and not self._flow.is_parked:
                        await self._step(subscription)
                        self.broadcaster.park_full()
                        # Pages of the ring are read without waiting: others get their turn.
                        await asyncio.sleep(0)
        except Exception:
            log.exception("a subscriber cannot be caught up and is closed")
            self.close(close_codes.INTERNAL, "internal error")
        finally:
            self._is_pumping = False

    async def _step(self, subscription: Subscription) -> None:
        """Reads and writes one page for a subscription, or puts it into its lane."""
        broadcaster, read = self.broadcaster, subscription.cursor.read
        if read == broadcaster.boundary == broadcaster.head:
            self._go_live(subscription)
        elif read >= broadcaster.head:
            await broadcaster.advanced(AGAIN_SECONDS)
        else:
            try:
                answer = await next_page(broadcaster, read, subscription.task_id)
            except StoreUnavailable:
                await broadcaster.clock.sleep(AGAIN_SECONDS)
                return
            if not subscription.is_open:
                return
            if isinstance(answer, StreamReset):
                self.reset(subscription, answer)
            else:
                self._deliver(subscription, *answer)

    def _deliver(self, subscription: Subscription, entries: list[Entry], through: int) -> None:
        """Writes the matching entries of a page."""
        matches = subscription.matches
        matching = merged_entries([entry for entry in entries if matches(entry)])
        cursor, style, parts = subscription.cursor, subscription.style, []
        for entry in matching:
            parts.append(style.event(entry, cursor.last))
            cursor = after_frame(cursor, entry.offset)
        subscription.cursor = after_reading(cursor, through)
        if parts:
            self.outlet.write(b"".join(parts))
            now = self.broadcaster.source.now()
            self.broadcaster.meter.sent(matching, 1, now, self.transport, len(matching))

    def _go_live(self, subscription: Subscription) -> None:
        """The subscription has read everything: a bookmark says so, and the lane goes on from there."""
        self._behind.pop(subscription, None)
        cursor, is_new = subscription.cursor, subscription.is_new
        offset = bookmark_at(cursor, self.broadcaster.boundary, live=is_new)
        if offset is not None:
            self.outlet.write(subscription.style.bookmark(offset, cursor.last, live=is_new))
            subscription.cursor = after_bookmark(cursor, offset)
        subscription.is_new = False
        subscription.lane = self.broadcaster.join(subscription.key, self.wrap, subscription)

    # -- time --------------------------------------------------------------------------------------

    def tick(self, now: float) -> int:
        if self.is_closed:
            return 0
        flow = self._looked()
        if is_stalled(flow, now, self._bounds):
            self.close(close_codes.SLOW_CONSUMER, "slow-consumer")
        elif flow.is_parked:
            self.park()
        else:
            self.drained()
        if now >= self._recheck_at:
            self.recheck()
        return flow.buffered

    def slowest(self) -> int | None:
        return min((subscription.cursor.read for subscription in self._behind), default=None)

    def recheck(self) -> None:
        if not self._is_checking and not self.is_closed:
            self._is_checking = True
            self._recheck_at = self.broadcaster.clock.monotonic() + RECHECK_SECONDS
            self._spawn(self._check())

    async def _check(self) -> None:
        """Reads the credential again, and whether each channel may still be read."""
        try:
            session = await self.session.renewed()
            if session is None:
                self.close(close_codes.UNAUTHENTICATED, "unauthenticated")
                return
            self.session = session
            for subscription in list(self.subscriptions.values()):
                await self._check_one(subscription)
        except StoreUnavailable:
            # What cannot be checked now is checked again soon. Until then the last answer holds.
            self._recheck_at = self.broadcaster.clock.monotonic() + AGAIN_SECONDS
        except Exception:
            log.exception("the rights of a subscriber cannot be checked: it is closed")
            self.close(close_codes.INTERNAL, "internal error")
        finally:
            self._is_checking = False

    async def _check_one(self, subscription: Subscription) -> None:
        answer = await find_targets(
            self.directory,
            self.session.principal,
            [target.channel for target in subscription.targets],
        )
        if not subscription.is_open:
            return
        if isinstance(answer, Denied):
            is_gone = answer.reason is DenialReason.PROJECT and not answer.message
            self.reset(subscription, StreamReset.GONE if is_gone else StreamReset.REVOKED)
            return
        before = subscription.key
        after = before._replace(
            filter=filter_for(self.session.principal, answer, like=before.filter)
        )
        if after != before:
            self._leave(subscription)
            subscription.shape(after, subscription.style)
            self._catch_up(subscription)
