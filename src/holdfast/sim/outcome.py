"""The outcome of a run, as the checkers read it."""

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
    """Plan, record and final state of a run."""

    plan: Plan
    record: Record
    history: list[Change]
    tasks: dict[str, Task]
    events: list[Event]
    edges: list[tuple[str, str]]
    """(child, parent)"""
    left: list[Left]
    """Unfinished cascades after each transaction that changed the set."""
    counters: list[tuple[str, str, int, str, int]]
    in_memory: dict[str, int]
    """Number of tasks that are still in the memory of each node."""
    lost: list[str]
    """Acknowledged commits that a power loss destroyed."""
    unfinished: list[Task]
    """Tasks that had not ended when the recovery phase was over."""
    failures: list[str]
    """Uncaught exceptions of product code."""
    healed_at: float
    """End of the fault phase."""
    seconds: float
    trace: Trace
    steps: int


async def all_tasks(store: Store) -> list[Task]:
    tasks: list[Task] = []
    while True:
        page = await store.reads.find(after=tasks[-1].id if tasks else None, limit=PAGE)
        tasks += page
        if len(page) < PAGE:
            return tasks


async def all_events(store: Store) -> list[Event]:
    events: list[Event] = []
    while True:
        page = await store.feed.read(events[-1].position if events else None)
        assert isinstance(page, Page)
        if not page.events:
            return events
        events += page.events


def in_memory(nodes: Iterable[Node]) -> dict[str, int]:
    """Tasks, unwritten outcomes and pending new tasks in the memory of each node. Scheduled tasks do not
    count: the schedules continue, so one of them may be there at any time."""
    counts = {}
    for node in nodes:
        engine = node.queue.parts.sessions.engine if node.queue is not None else None
        if engine is not None:
            tasks = [run.task for run in engine.runs.by_id.values()]
            tasks += [task for task, _ in engine.completer._waiting]
            taking = engine.direct_start.in_progress if engine.direct_start else 0
            counts[node.name] = sum(task.type not in SCHEDULED for task in tasks) + taking
    return counts


def describe_failures(failures: Iterable[dict[str, Any]]) -> list[str]:
    """Uncaught exceptions as text, without `Killed`, which no code should catch."""
    return [
        f"{failure.get('message')}: {failure.get('exception')!r}"
        for failure in failures
        if not isinstance(failure.get("exception"), Killed)
    ]
