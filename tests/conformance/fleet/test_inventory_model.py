"""Hosts and blocks against a model: any order of additions, edits, removals, imports, lifts and time."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings, strategies as st

from holdfast.clock import VirtualClock
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.model import Host, HostState
from holdfast.errors import Conflict, NotFound
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.queue.by import By
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.support import BY, block_epoch

NAMES = ("a", "b", "c")
_projects = itertools.count()
names = st.sampled_from(NAMES)
labels = st.dictionaries(st.sampled_from(["role", "rack"]), st.sampled_from(["1", "2"]))
steps = st.one_of(
    st.tuples(st.just("add"), names, labels),
    st.tuples(st.just("edit"), names, labels),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("import"), st.lists(st.tuples(names, labels), max_size=3)),
    st.tuples(st.just("block"), names, st.sampled_from([None, 10.0, 100.0])),
    st.tuples(st.just("select"), st.sampled_from(["1", "2"]), st.sampled_from([None, 50.0])),
    st.tuples(st.just("lift"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([5.0, 60.0])),
    st.tuples(st.just("expire")),
)


class ModelHost(msgspec.Struct):
    id: str
    labels: dict[str, str]
    version: int = 1
    is_gone: bool = False


class ModelBlock(msgspec.Struct):
    id: str
    host: str | None
    role: str | None
    ends: float | None
    is_lifted: bool = False


class Inventory:
    """A project, and what it should be."""

    def __init__(self, store: Store, project: str, clock: VirtualClock) -> None:
        self.store, self.project, self.clock = store, project, clock
        self.use, self.blocks = Hosts(store), Blocks(store)
        self.hosts: dict[str, ModelHost] = {}
        self.made: list[ModelBlock] = []

    def there(self, name: str) -> ModelHost | None:
        host = self.hosts.get(name)
        return None if host is None or host.is_gone else host

    def took(self, name: str, host: Host, labels: dict[str, str]) -> None:
        before = self.hosts.get(name)
        version = 1 if before is None else before.version + 1
        assert before is None or before.id == host.id
        self.hosts[name] = ModelHost(host.id, labels, version)

    async def add(self, name: str, labels: dict[str, str]) -> None:
        entry = HostEntry(name=name, labels=labels)
        try:
            host = await self.use.add(self.project, entry, BY)
        except Conflict:
            assert self.there(name) is not None
        else:
            assert self.there(name) is None
            self.took(name, host, labels)

    async def edit(self, name: str, labels: dict[str, str]) -> None:
        host = self.hosts.get(name)
        if host is None:
            return
        by = By("user:ann", expected_version=host.version)
        try:
            edited = await self.use.edit(host.id, by, labels=dict(labels))
        except NotFound:
            assert host.is_gone
            return
        merged = host.labels | labels
        if merged != host.labels:
            host.version, host.labels = host.version + 1, merged
        assert (edited.version, edited.labels) == (host.version, merged)

    async def remove(self, name: str) -> None:
        host = self.hosts.get(name)
        if host is None:
            return
        gone = await self.use.remove(host.id, BY)
        if not host.is_gone:
            host.is_gone, host.version = True, host.version + 1
        assert (gone.state, gone.version) == (HostState.GONE, host.version)

    async def import_(self, wanted: list[tuple[str, dict[str, str]]]) -> None:
        entries = [HostEntry(name=name, labels=labels) for name, labels in wanted]
        done = await self.use.import_(self.project, entries, BY)
        unique = dict(reversed(wanted))
        assert done.failed == len(wanted) - len(unique)
        added = changed = 0
        for name, labels in unique.items():
            host = self.there(name)
            if host is None:
                added += 1
                self.took(name, (await self.use.get(self.project, name)), labels)
            elif host.labels != labels:
                changed += 1
                host.labels, host.version = labels, host.version + 1
        assert (done.added, done.changed) == (added, changed)
        assert done.unchanged == len(unique) - added - changed

    async def block(self, host: str | None, role: str | None, seconds: float | None) -> None:
        ends = None if seconds is None else self.store.now() + seconds
        selector = None if role is None else f"role={role}"
        new = NewBlock(reason="r", host=host, selector=selector, expires_at=ends)
        if host is not None and self.there(host) is None:
            return
        block = await self.blocks.add(self.project, new, BY)
        self.made.append(ModelBlock(block.id, host, role, ends))

    async def lift(self, nth: int) -> None:
        if nth < len(self.made):
            await self.blocks.lift(self.made[nth].id, BY)
            self.made[nth].is_lifted |= not self.is_over(self.made[nth])

    def is_over(self, block: ModelBlock) -> bool:
        return block.ends is not None and block.ends <= self.store.now()

    async def step(self, kind: str, *args: Any) -> None:
        match kind:
            case "add":
                await self.add(*args)
            case "edit":
                await self.edit(*args)
            case "remove":
                await self.remove(*args)
            case "import":
                await self.import_(*args)
            case "block":
                await self.block(args[0], None, args[1])
            case "select":
                await self.block(None, *args)
            case "lift":
                await self.lift(*args)
            case "wait":
                self.clock.set(self.clock.now() + args[0])
            case "expire":
                await self.blocks.expire()

    async def check(self) -> None:
        present = {name: host for name, host in self.hosts.items() if not host.is_gone}
        listed = await self.use.list(self.project)
        assert [(h.name, h.id, h.labels, h.version) for h in listed] == [
            (name, host.id, host.labels, host.version) for name, host in sorted(present.items())
        ]
        active = [b for b in self.made if not b.is_lifted and not self.is_over(b)]
        assert [b.id for b in await self.blocks.active(self.project)] == [b.id for b in active]
        found = await self.blocks.of_hosts(self.project, listed)
        for host in listed:
            expected = [
                b.id
                for b in active
                if (b.host is not None and self.hosts[b.host].id == host.id)
                or (b.role is not None and host.labels.get("role") == b.role)
            ]
            assert [b.id for b in found[host.id]] == expected
        ends = [b.ends for b in active if b.ends is not None]
        due = await self.blocks.next_due()
        assert not ends or (due is not None and due <= min(ends))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, min_size=3, max_size=25))
async def test_hosts_and_blocks_are_what_the_model_says(
    bench: Bench, clock: VirtualClock, plan: list[tuple[Any, ...]]
) -> None:
    """Each plan has a project of the same store."""
    store = bench._stores[0] if bench._stores else await bench.open()
    inventory = Inventory(store, f"p-{next(_projects)}", clock)
    epoch = 0
    for step in plan:
        blocks = msgspec.to_builtins(inventory.made)
        await inventory.step(*step)
        await inventory.check()
        now = await block_epoch(store, inventory.project)
        is_change = blocks != msgspec.to_builtins(inventory.made)
        assert now > epoch if is_change else now >= epoch
        epoch = now
