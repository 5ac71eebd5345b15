"""What tests of the fleet share."""

from __future__ import annotations

from typing import Any

from holdfast.core.audit import AuditEntry
from holdfast.core.event import Event
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.model import Host
from holdfast.fleet.block_epoch import read_epoch
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.queue.by import By
from holdfast.store.scripts.feed import Page
from holdfast.store.store import Store
from holdfast.sync.access.recorded import Recorded

PROJECT = "default"
BY = By("user:ann", "a test")


def audited(subject: str = "s", **fields: Any) -> By:
    """An operator whose act is audited."""

    def entries(_outcome: object, now: float) -> list[AuditEntry]:
        return [
            AuditEntry(at=now, actor="user:ann", operation="o", project=PROJECT, subject=subject)
        ]

    return By("user:ann", "a test", beside=Recorded(entries), **fields)


async def add_host(store: Store, name: str, project: str = PROJECT, **fields: Any) -> Host:
    return await Hosts(store).add(project, HostEntry(name=name, **fields), BY)


async def events(store: Store, prefix: str = "") -> list[Event]:
    """All events whose kinds start with the prefix."""
    page = await store.feed.read(await store.feed.oldest(), limit=1000)
    assert isinstance(page, Page)
    return [event for event in page.events if event.kind.startswith(prefix)]


async def block_epoch(store: Store, project: str = PROJECT) -> int:
    return await store.read(lambda: read_epoch(project))
