"""What a run leaves behind, for the checkers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.core.event import Event
from holdfast.core.task import Task
from holdfast.sim.blocking_thread import Killed
from holdfast.sim.node import Node
from holdfast.sim.record import Record
from holdfast.sim.schedules import SCHEDULED
from holdfast.sim.server import Change, Left
from holdfast.sim.swarm import Plan
from holdfast.sim.trace import Trace
from holdfast.store.scripts.feed import Page
from holdfast.store.store import Store

PAGE = 1000


class Outcome(msgspec.Struct, frozen=True):
    """Everything that the checkers need."""

    plan: Plan
    record: Record
    history: list[Change]
    tasks: dict[str, Task]
    events: list[Event]
    edges: list[tuple[str, str]]
    """(child, parent)"""
    left: list[Left]
    """Parents whose dependents were not all told, as of each transaction that changed which."""
    counters: list[tuple[str, str, int, str, int]]
    held: dict[str, int]
    """Tasks that each worker still holds."""
    lost: list[str]
    """Commits that a power loss took."""
    unfinished: list[Task]
    """What had not come to rest when the time to recover was over."""
    failures: list[str]
    """What nobody caught in product code."""
    healed_at: float
    """When the bad days were over."""
    seconds: float
    trace: Trace
    steps: int


async def all_tasks(store: Store) -> list[Task]:
    found: list[Task] = []
    while True:
        page = await store.find(after=found[-1].id if found else None, limit=PAGE)
        found += page
        if len(page) < PAGE:
            return found


async def all_events(store: Store) -> list[Event]:
    found: list[Event] = []
    while True:
        page = await store.events(found[-1].position if found else None)
        assert isinstance(page, Page)
        if not page.events:
            return found
        found += page.events


def held(nodes: Iterable[Node]) -> dict[str, int]:
    """What each node has in its hands: tasks, outcomes that are not written, new tasks on their way. The
    schedules go on, so one of theirs may be among them at any moment; it does not count."""
    found = {}
    for node in nodes:
        engine = node.queue._engine if node.queue is not None else None
        if engine is not None:
            tasks = [each.task for each in engine.pool.held.values()]
            tasks += [task for task, _ in engine.completer._waiting]
            taking = len(engine.dispatcher._taking)
            found[node.name] = sum(task.type not in SCHEDULED for task in tasks) + taking
    return found


def describe_failures(failures: Iterable[dict[str, Any]]) -> list[str]:
    """What nobody caught, in words; but for the end of a process, which nobody should."""
    return [
        f"{failure.get('message')}: {failure.get('exception')!r}"
        for failure in failures
        if not isinstance(failure.get("exception"), Killed)
    ]
