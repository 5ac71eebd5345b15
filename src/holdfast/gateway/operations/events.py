"""The feed by position: events after one, with a wait, or before one, and a search in both directions.

Promises: a page with a filter looks at up to `LOOK_MAX` events until one matches, and says where it stopped.
Events of one task (`q=task_id:ID`) are found by its index. A query is judged on what is shown: no secret is
found by guessing. Never: skips an event that matches.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from holdfast.bus.port import FEED, WORK
from holdfast.core.check import check_number, check_page
from holdfast.core.event import Event, Position
from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.core.search import Query
from holdfast.core.search.events import LOOK_MAX, accepts, list_query, task_of, without_data
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.core.wire import parse_position
from holdfast.errors import FeedReset, InvalidInput
from holdfast.gateway import redacting
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.tasks import QUERY_CHARS_MAX
from holdfast.queue import views
from holdfast.store.store import Reset

WAIT_SECONDS_MAX: Final = 30.0
NAMES_MAX: Final = 200
LOOK: Final = 500
"""Events that are read at once."""
HEAD: Final = "head"


class Filter(msgspec.Struct, frozen=True):
    """Which events a reader gets."""

    projects: frozenset[str] | None
    topics: frozenset[str]
    kinds: frozenset[str]
    query: Query = Query()

    def accepts(self, event: Event) -> bool:
        """Whether the reader may see the event and asked for its kind. What it gets is searched later."""
        if self.kinds and event.kind not in self.kinds:
            return False
        if self.topics and not self.topics & _topics(event):
            return False
        if self.projects is None:
            return True
        # Events that are about no task show names of all projects.
        return bool(event.task_id) and (event.project or DEFAULT_PROJECT) in self.projects


async def read_events(
    call: Call,
    *,
    after: str | None = None,
    before: str | None = None,
    topics: str = "",
    kinds: str = "",
    q: str = "",
    limit: int = 100,
    wait_seconds: float = 0.0,
) -> Answer:
    """Events after a position, oldest first; or those `before` a position or `head`, the latest first.
    FeedReset if the position is not covered any more."""
    call.authorise_any(O.EVENTS_READ)
    if after is not None and before is not None:
        raise InvalidInput("both after and before are given: use one of them")
    if len(q) > QUERY_CHARS_MAX:
        raise InvalidInput(f"q has {len(q)} characters: at most {QUERY_CHARS_MAX} are allowed")
    names = _names("topics", topics), _names("kinds", kinds)
    wanted = Filter(call.projects, *names, list_query(q))
    seconds = min(check_number("wait_seconds", wait_seconds), WAIT_SECONDS_MAX)
    if before is not None:
        return await _earlier(call, wanted, before, check_page(limit))
    position = None if after is None else parse_position("after", after)
    return await _later(call, wanted, position, check_page(limit), seconds)


async def _later(
    call: Call, wanted: Filter, position: Position | None, limit: int, seconds: float
) -> Answer:
    services, stir, looked = call.services, asyncio.Event(), 0
    is_search = wanted.query.clause is not None
    until = services.clock.monotonic() + seconds
    unsubscribe = services.bus.subscribe(lambda _: stir.set(), FEED, WORK)
    try:
        while True:
            stir.clear()
            page = await services.store.feed.read(position, LOOK if is_search else limit)
            if isinstance(page, Reset):
                raise FeedReset(page.reason, str(page.oldest), str(page.head))
            items = _shown(call, wanted, page.events)
            position, looked = page.position, looked + len(page.events)
            if len(items) > limit:
                items = items[:limit]
                position = Position.parse(items[-1]["position"])
            left = until - services.clock.monotonic()
            goes_on = is_search and page.events and looked < LOOK_MAX
            if items or services.is_stopping or (left <= 0 and not goes_on):
                body = {"items": items, "next": str(position), "head": str(page.head)}
                return Answer({**body, "oldest": str(await services.store.feed.oldest())})
            if not page.events:
                await services.until_stop(services.clock.wait(stir, min(left, 1.0)))
    finally:
        unsubscribe()


async def _earlier(call: Call, wanted: Filter, before: str, limit: int) -> Answer:
    """The events before a position, the latest first. `next` is the position to go on before; null: none is
    left."""
    feed = call.services.store.feed
    head, oldest = await feed.head(), await feed.oldest()
    end = Position(head.epoch, head.offset + 1)
    if before != HEAD:
        end = parse_position("before", before)
        if end.epoch != head.epoch:
            raise FeedReset("epoch", str(oldest), str(head))
        end = min(end, Position(head.epoch, head.offset + 1))
    task_id = task_of(wanted.query)
    if task_id is not None:
        history = await feed.history(task_id)
        items = _shown(call, wanted, [each for each in history if each.position < end])[::-1]
        following = None if len(items) <= limit else items[limit - 1]["position"]
        items = items[:limit]
    else:
        items, following = await _back(call, wanted, end.offset, oldest, limit)
    return Answer({"items": items, "next": following, "head": str(head), "oldest": str(oldest)})


async def _back(
    call: Call, wanted: Filter, end: int, oldest: Position, limit: int
) -> tuple[list[views.View], str | None]:
    """Looks back from an offset, and stops at the limit, at the bound or at the oldest event."""
    found: list[views.View] = []
    step = LOOK if wanted.query.clause is not None or wanted.kinds or wanted.topics else limit
    last = max(oldest.offset, end - 1 - LOOK_MAX)
    while end - 1 > last and len(found) < limit:
        start = max(last, end - 1 - step)
        page = await call.services.store.feed.read(Position(oldest.epoch, start), end - 1 - start)
        if isinstance(page, Reset):
            # Events were pruned meanwhile: what was found is all that is left.
            return found, None
        found += reversed(_shown(call, wanted, page.events))
        end = start + 1
    if len(found) > limit:
        return found[:limit], str(found[limit - 1]["position"])
    if len(found) == limit or end - 1 > oldest.offset:
        return found, str(Position(oldest.epoch, end)) if end - 1 > oldest.offset else None
    return found, None


def _shown(call: Call, wanted: Filter, events: list[Event]) -> list[views.View]:
    now, rules, query = call.services.now(), call.services.redaction, wanted.query
    first, found = without_data(query), []
    for each in events:
        # What is hidden is not searched, and hiding costs more than the other tests.
        if wanted.accepts(each) and accepts(first, each, {}, now):
            view = views.event(redacting.event(rules, each))
            if accepts(query, each, view["data"], now):
                found.append(view)
    return found


def _topics(event: Event) -> set[str]:
    if not event.task_id:
        return {"system:events"}
    return {f"task:{event.task_id}", f"project:{event.project or DEFAULT_PROJECT}"}


def _names(field: str, text: str) -> frozenset[str]:
    names = frozenset(name for name in text.split(",") if name)
    if len(names) > NAMES_MAX:
        raise InvalidInput(f"{field} has {len(names)} names: at most {NAMES_MAX} are allowed")
    return names
