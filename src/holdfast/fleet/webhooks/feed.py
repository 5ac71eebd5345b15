"""Makes deliveries from the feed: each event that an endpoint wants becomes one entry of the outbox.

Promises: an endpoint's deliveries and its position in the feed are one transaction, so no event is lost or
delivered as two messages, whatever process reads it. Events are passed in order. An endpoint with
`WAITING_MAX` waiting deliveries gets no more until some are done; events that retention removed meanwhile are
reported as skipped. Never: delivers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.core.access import ALL_PROJECTS
from holdfast.core.event import Event, Position
from holdfast.core.event_kinds import project_of
from holdfast.core.fleet.model import Webhook, WebhookDirection
from holdfast.core.fleet.webhooks.rules import message_of, prefixes, wants
from holdfast.core.redaction import Redaction
from holdfast.engine.loop import Loop
from holdfast.fleet.webhooks import scripts
from holdfast.fleet.webhooks.webhooks import write_message
from holdfast.store.feed import Reset, ResetReason
from holdfast.store.store import Store

PAGE: Final = 500
"""Events that one transaction passes."""
SKIM: Final = 10_000
"""Events that are passed at once if an endpoint wants none of them."""
PAGES: Final = 20
"""Pages that one tick passes for an endpoint."""
KEPT_EVENTS: Final = 5_000
KEPT_SECONDS: Final = 60.0
"""The position of an endpoint is stored after this many events or seconds, though it wanted no event."""
WAITING_MAX: Final = 10_000
"""Deliveries that wait for one endpoint."""
LOOK_SECONDS: Final = 1.0


class WebhookFeed(Loop):
    """Reads the feed for all endpoints."""

    name = "webhook-feed"

    def __init__(self, store: Store, clock: Clock, redaction: Redaction | None = None) -> None:
        super().__init__(clock)
        self._store = store
        self._redaction = redaction or Redaction()
        self._passed: dict[str, tuple[str | None, Position]] = {}
        """By endpoint: its stored position, and how far this process has read from there."""
        self.on_added: Callable[[], None] = lambda: None
        """Called after deliveries were added."""
        self.has_endpoints = False
        self._keep_at = 0.0
        self._is_keeping = False

    async def tick(self) -> float:
        endpoints = await self._store.read(lambda: scripts.active(WebhookDirection.OUT))
        self.has_endpoints = bool(endpoints)
        self._passed = {e.id: self._passed[e.id] for e in endpoints if e.id in self._passed}
        now = self.clock.monotonic()
        self._is_keeping = now >= self._keep_at
        if self._is_keeping:
            self._keep_at = now + KEPT_SECONDS
        is_done = True
        for endpoint in endpoints:
            done = await self.guard(f"endpoint {endpoint.id}", self._catch_up(endpoint))
            is_done = is_done and done is not False
        return LOOK_SECONDS if is_done else 0.0

    async def _catch_up(self, endpoint: Webhook) -> bool:
        """Returns whether the head is reached, or no more is wanted now."""
        waiting = await self._store.read(lambda: scripts.count_waiting(endpoint.id, WAITING_MAX))
        if waiting >= WAITING_MAX:
            return True
        stored, at = self._passed.get(endpoint.id, (None, None))
        if at is None or stored != endpoint.position:
            at = _position(endpoint)
        for _ in range(PAGES):
            step = await self._pass(endpoint, at)
            if step is None:
                self._passed.pop(endpoint.id, None)
                return True
            endpoint, at, is_done = step
            self._passed[endpoint.id] = (endpoint.position, at)
            if is_done:
                return True
        return False

    async def _pass(self, endpoint: Webhook, at: Position) -> tuple[Webhook, Position, bool] | None:
        """Passes some events. None: another process does it, or the endpoint was changed."""
        skimmed = await self._store.feed.skim(at, SKIM, prefixes(endpoint.kinds))
        if isinstance(skimmed, Reset):
            return await self._skip(endpoint, skimmed)
        if not skimmed.prefixes:
            is_done = skimmed.position == skimmed.head
            return await self._note(endpoint, skimmed.position, is_done=is_done)
        page = await self._store.feed.read(at, PAGE)
        if isinstance(page, Reset):
            return await self._skip(endpoint, page)
        payloads = [
            write_message(message_of(endpoint.id, event, self._redaction))
            for event in page.events
            if _is_for(endpoint, event)
        ]
        is_done = page.position == page.head
        if not payloads:
            return await self._note(endpoint, page.position, is_done=is_done)
        return await self._move(endpoint, page.position, payloads, is_done=is_done)

    async def _note(
        self, endpoint: Webhook, to: Position, *, is_done: bool
    ) -> tuple[Webhook, Position, bool] | None:
        """Passes events that the endpoint does not want."""
        ahead = to.offset - _position(endpoint).offset
        if ahead >= KEPT_EVENTS or (ahead and self._is_keeping):
            return await self._move(endpoint, to, [], is_done=is_done)
        return endpoint, to, is_done

    async def _skip(self, endpoint: Webhook, reset: Reset) -> tuple[Webhook, Position, bool] | None:
        """Goes on behind a gap: with what is left of the same history, or at the head of another one."""
        is_pruned = reset.reason is ResetReason.PRUNED
        to = reset.oldest if is_pruned else reset.head
        return await self._move(endpoint, to, [], is_done=not is_pruned, skipped=reset.reason.value)

    async def _move(
        self,
        endpoint: Webhook,
        to: Position,
        payloads: list[str],
        *,
        is_done: bool,
        skipped: str = "",
    ) -> tuple[Webhook, Position, bool] | None:
        script = partial(
            scripts.pass_events,
            webhook=endpoint,
            position=str(to),
            payloads=payloads,
            skipped=skipped,
        )
        if not await self._store.run(script):
            return None
        if payloads:
            self.on_added()
        return replace(endpoint, position=str(to)), to, is_done


def _position(endpoint: Webhook) -> Position:
    assert endpoint.position is not None, "an endpoint has a position from its start"
    return Position.parse(endpoint.position)


def _is_for(endpoint: Webhook, event: Event) -> bool:
    if not wants(endpoint.kinds, event):
        return False
    return endpoint.project in (ALL_PROJECTS, project_of(event))
