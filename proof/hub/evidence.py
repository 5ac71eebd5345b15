"""What a run leaves for the judge, and which events a watcher must have seen."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from holdfast.core.event import Event
from holdfast.core.event_kinds import SYSTEM_ADMIN, SYSTEM_EVENTS, topics_of
from holdfast.queue.queue import Queue
from proof.hub.audience import Watcher
from proof.hub.plan import Plan
from proof.hub.plugin import Made
from proof.hub.site import Kept


@dataclass(frozen=True)
class Replica:
    """An offline node at the end."""

    name: str
    tasks: dict[str, dict[str, Any]]
    pending: int
    refused: set[str]
    """Labels of changes that the server refused."""
    made: list[Made]


@dataclass(frozen=True)
class Seen:
    """One item that a watcher was shown."""

    type: str
    offset: int
    kind: str | None
    task: str | None
    merged: int
    last: bool | None


@dataclass(frozen=True)
class Evidence:
    """A run that has ended."""

    plan: Plan
    start: str
    events: list[Event]
    """The feed after the start, read from the store at the end."""
    watchers: list[Watcher]
    folder: Path
    reports: dict[str, dict[str, Any]]
    replicas: list[Replica]
    tasks: list[dict[str, Any]]
    answers: dict[str, set[str]]
    interventions: set[str]
    unexpected: list[str]
    refusals: dict[str, int]
    retries: int
    faults: dict[str, int]
    fault_log: list[tuple[float, str]]
    processes: list[Kept]
    audit: str
    complaints: list[str]
    quiet_seconds: float

    def seen(self) -> dict[str, list[Seen]]:
        """What each watcher was shown, in order."""
        items: defaultdict[str, list[Seen]] = defaultdict(list)
        for path in self.folder.glob("*.seen"):
            for text in path.read_text().splitlines():
                fields = json.loads(text)
                items[fields.pop("watcher")].append(Seen(**fields))
        return items


async def feed_of(store: Queue, after: str) -> list[Event]:
    """All events after a position."""
    return [event async for event in store.events(after, follow=False)]


def expected(events: Iterable[Event], watcher: Watcher) -> list[Event]:
    """The events of a subscription of an administrator."""
    topics = {watcher.channel}
    if watcher.channel == SYSTEM_EVENTS:
        topics.add(SYSTEM_ADMIN)
    return [
        event
        for event in events
        if not topics.isdisjoint(topics_of(event))
        and (not watcher.kinds or any(fnmatchcase(event.kind, kind) for kind in watcher.kinds))
    ]


def last_offsets(events: Sequence[Event], watchers: Iterable[Watcher]) -> dict[str, int]:
    """The offset of the last event of each watcher."""
    return {
        watcher.name: max((e.position.offset for e in expected(events, watcher)), default=0)
        for watcher in watchers
    }
