"""Three nodes that work offline converge, under each strategy.

Each node edits copies of the tasks, claims and ends them, pushes its mutations late, repeated and in any
order, restarts, and loses answers. Some items are not valid, some become too large when they are merged, some
have a report beside content. A node adopts the state of every refusal and pulls what changed. In the end all
replicas equal the server, and all content was applied or is in a conflict that an answer named.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings, strategies as st

from holdfast.clock import VirtualClock
from holdfast.core.exchange.item import LabelChange
from holdfast.core.exchange.item_wire import read_item
from holdfast.core.exchange.strategy import Strategy
from holdfast.errors import Conflict, NotFound
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.exchange.conflicts import Conflicts
from holdfast.sync.exchange.push_state import ItemResult
from holdfast.sync.projects import Projects
from holdfast.sync.rows import own
from holdfast.sync.sync_task import SyncTask
from tests.backends import SqliteBench
from tests.conformance.sync.support import PROJECT, Plugin
from tests.conformance.tasks.helpers import read_all
from tests.statements import query

NAMES = ("t0", "t1", "t2")
NODES = ("n0", "n1", "n2")
EDITS = (
    "payload",
    "metadata",
    "label",
    "unlabel",
    "complete",
    "fail",
    "report",
    "invalid",
    "large",
    "both",
)
ACTS = (*EDITS, "large", "both", "claim", "pull", "push", "late", "repeat", "restart", "pull")


class Offline:
    """A replica: copies of tasks, and mutations that the server has not acknowledged."""

    def __init__(self, store: Store, name: str) -> None:
        self.plugin = Plugin(store, name)
        self.copies: dict[str, SyncTask] = {}
        self.pending: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.cursor: str | None = None
        self.count = 0
        self.named: set[str] = set()
        """Conflicts that answers have named."""

    async def start(self) -> None:
        await self.plugin.start()

    def edit(self, name: str, **fields: Any) -> None:
        """Writes offline: a mutation on the version that the replica has."""
        self.count += 1
        copy = self.copies.get(name)
        item = {
            "id": name,
            "expected_version": copy.version if copy else 0,
            "mutation_id": f"{self.plugin.name}-{self.count}",
            **fields,
        }
        if not copy:
            item = {"payload": 0, **item}
        self.pending.append(item)

    async def push(self, items: list[dict[str, Any]], *, is_answered: bool = True) -> None:
        """Pushes. Without an answer the node learns nothing, and repeats later."""
        if not items:
            return
        node = await self.plugin.row()
        read = [read_item(wire(item)) for item in items]
        answer = await self.plugin.exchange.push(self.plugin.voice, PROJECT, read)
        self.sent += items
        for item, result in zip(items, answer.pushed.results, strict=True):
            self.judge(item, result)
        if not is_answered:
            return
        self.pending = [item for item in self.pending if item not in items]
        names = [item["id"] for item in items]
        there = (await self.plugin.exchange.pull(node, PROJECT, names=names)).tasks
        truth = {task.id: task for task in there}
        for result in answer.pushed.results:
            assert (result.state is None) == (result.task_id not in truth)
            if result.state is not None:
                assert result.state == truth[result.task_id], (
                    "an answer has the state of the server"
                )
                self.adopt(result.state)

    def judge(self, item: dict[str, Any], result: ItemResult) -> None:
        """Content that is left to a person is recorded, and the answer names the record."""
        if "a\nb" in item.get("labels", LabelChange()).add:
            assert (result.success, result.error) == (False, "INVALID_INPUT")
        if "VERSION_CONFLICT" in (
            result.content_error,
            result.resolution == "MANUAL" and result.error,
        ):
            assert result.conflict_id is not None, result
        if result.conflict_id is not None:
            self.named.add(result.conflict_id)

    async def pull(self) -> None:
        node = await self.plugin.row()
        while True:
            page = await self.plugin.exchange.pull(node, PROJECT, cursor=self.cursor, limit=2)
            for task in page.tasks:
                self.adopt(task)
            if page.next_cursor is None:
                self.cursor = str(page.cursor)
                return
            self.cursor = page.next_cursor

    def adopt(self, state: SyncTask) -> None:
        """Takes the server's state. An answer that arrives late does not replace a newer one."""
        copy = self.copies.get(state.id)
        if copy is None or state.version >= copy.version:
            self.copies[state.id] = state


def edit(node: Offline, name: str, what: str, draw: random.Random) -> None:
    """Writes offline."""
    fields: dict[str, dict[str, Any]] = {
        "payload": {"payload": draw.randrange(5)},
        "metadata": {"metadata": {draw.choice("xy"): draw.randrange(5)}},
        "label": {"labels": LabelChange((draw.choice("ab"),))},
        "unlabel": {"labels": LabelChange((), (draw.choice("ab"),))},
        "complete": {"status": "completed", "result": draw.randrange(3)},
        "fail": {"status": "failed", "result": None},
        "invalid": {"labels": LabelChange(("a\nb",))},
        "large": {"metadata": {draw.choice("pqr"): "y" * 12_000}},
        "both": {"progress": draw.random(), "metadata": {"z": draw.randrange(5)}},
        "report": {"progress": draw.random(), "iteration": draw.randrange(4)},
    }
    node.edit(name, **fields[what])


async def act(node: Offline, name: str, what: str, draw: random.Random) -> None:
    match what:
        case "claim":
            try:
                locked = await node.plugin.claim(name, lease_seconds=10.0)
            except (Conflict, NotFound, ValueError):
                return
            node.adopt(locked.task)
        case "push":
            await node.push(list(node.pending))
        case "late":
            await node.push(list(node.pending), is_answered=False)
        case "repeat":
            await node.push(draw.sample(node.sent, k=min(3, len(node.sent))))
        case "restart":
            await node.start()
        case "pull":
            await node.pull()
        case _:
            edit(node, name, what, draw)


async def history(strategy: str, seed: int, steps: list[tuple[int, int, str]]) -> None:
    clock = VirtualClock()
    bench = SqliteBench(clock, "")
    store = await bench.open()
    draw = random.Random(seed)
    try:
        await Projects(store).put(PROJECT, By("user:ann"), strategy=strategy)
        nodes = [Offline(store, name) for name in NODES]
        for node in nodes:
            await node.start()
        for n, t, what in steps:
            await act(nodes[n], NAMES[t], what, draw)
            clock.set(clock.now() + draw.choice((0.0, 1.0, 12.0)))
        await settle(nodes, draw)
        await check(store, nodes)
    finally:
        await bench.close()


async def settle(nodes: list[Offline], draw: random.Random) -> None:
    """All nodes are online again: they push what is left, in any order, then pull."""
    for node in draw.sample(nodes, k=len(nodes)):
        items = list(node.pending)
        draw.shuffle(items)
        await node.push(items)
        assert node.pending == []
    for node in nodes:
        await node.pull()


async def check(store: Store, nodes: list[Offline]) -> None:
    truth = Offline(store, NODES[0])
    await truth.pull()
    expected = {name: (seen.version, seen.content_hash) for name, seen in truth.copies.items()}
    for node in nodes:
        replica = {name: (seen.version, seen.content_hash) for name, seen in node.copies.items()}
        assert replica == expected
    await check_conflicts(store, nodes)
    for seen in truth.copies.values():
        events = await store.feed.history(seen.task_id)
        ends = [e for e in events if e.kind in ("task.completed", "task.aborted")]
        assert len(ends) <= 1, "a terminal task never changes"


async def check_conflicts(store: Store, nodes: list[Offline]) -> None:
    """The records, the figures, the events and the answers agree: no effect of an undone item stays."""
    rows = await Conflicts(store).list(PROJECT, limit=1_000)
    figures = {row[0]: row[1] for row in await query(store, own("read_tally"), project=PROJECT)}
    opened = [row for row in rows if row.state == "open"]
    assert len(rows) == figures.get("conflicts_total", 0)
    assert len(opened) == figures.get("conflicts_open", 0)
    events = [e.data["conflict"] for e in await read_all(store) if e.kind == "conflict.recorded"]
    assert sorted(events) == sorted(row.id for row in rows)
    assert {row.id for row in rows} == {id for node in nodes for id in node.named}


def wire(item: dict[str, Any]) -> bytes:
    """The item as JSON."""
    names = {"expected_version": "expectedVersion", "mutation_id": "mutationId"}
    return msgspec.json.encode({names.get(name, name): value for name, value in item.items()})


LEFT = [(0, 0, act) for act in ("metadata", "push", "both", "claim", "push")]
"""A runner reports beside content on an old version."""
TOO_LARGE = [(0, 0, "large"), (0, 0, "push"), (1, 0, "pull"), (1, 0, "large")]
TOO_LARGE += [(0, 0, "label"), (0, 0, "push"), (1, 0, "push")]
"""Content on an old version that is too large when it is merged."""


@settings(
    max_examples=40,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    strategy=st.sampled_from([strategy.value for strategy in Strategy]),
    seed=st.integers(0, 2**32),
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from(ACTS)),
        min_size=5,
        max_size=40,
    ),
)
@example("manual", 1, [*LEFT])
@example("manual", 2, [*LEFT])
@example("manual", 3, [*LEFT])
@example("merge", 1, [*TOO_LARGE])
@example("merge", 2, [*TOO_LARGE])
@example("merge", 3, [*TOO_LARGE])
def test_three_offline_nodes_converge(
    strategy: str, seed: int, steps: list[tuple[int, int, str]]
) -> None:
    asyncio.run(history(strategy, seed, steps))
