"""Three offline nodes and a model server: any interleaving of edits, syncs, lost answers, crashes, deletions,
pruning and restores. At the end all agree, and every change was applied once or is kept as a conflict."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from holdfast.client.node.exchange import Exchange
from holdfast.client.node.identity import Identity
from holdfast.client.node.journal import Journal
from holdfast.client.node.node import Node
from holdfast.clock import VirtualClock
from holdfast.core.strategy import Strategy
from tests.unit.client.client_support import http_of
from tests.unit.client.sync_model import Fields, ModelServer

NAMES = st.sampled_from(["t1", "t2", "t3"])
WHO = st.integers(0, 2)


class Cut(Exception):
    """The connection was lost, or the process died."""


class Shaky:
    """The way to the server: it can lose the n-th request or its answer."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.calls_left = 10**9
        self.is_answer_lost = False

    async def handshake(self, body: Fields) -> Fields:
        return await self._call(self.server.handshake, body)

    async def pull(self, body: Fields) -> Fields:
        return await self._call(self.server.pull, body)

    async def push(self, body: Fields) -> Fields:
        return await self._call(self.server.push, body)

    async def _call(self, call: Any, body: Fields) -> Fields:
        self.calls_left -= 1
        if self.calls_left < 0 and not self.is_answer_lost:
            raise Cut
        answer: Fields = await call(body)
        if self.calls_left < 0:
            raise Cut
        return answer


class Member:
    """One node on a journal that outlives it."""

    def __init__(self, folder: Path, name: str, server: ModelServer) -> None:
        self.path = folder / f"{name}.db"
        self.name = name
        self.link = Shaky(server)
        self.start()

    def start(self) -> None:
        journal = Journal(self.path)
        identity = Identity(node_id=self.name)
        http = http_of(lambda request: pytest.fail("no request"))
        # Each start has other random ids.
        http.ids._bits.seed(f"{self.name}{self.path.stat().st_size}{id(journal)}")  # type: ignore[attr-defined]
        self.node = Node(self.path.parent, identity, journal, http, None)

    def restart(self) -> None:
        self.node._journal.close()
        self.start()

    def sync(self) -> None:
        exchange = Exchange(self.node._journal, self.link, self.name, VirtualClock())
        asyncio.run(exchange.sync())

    def states(self) -> dict[str, Any]:
        return {
            task.id: (task.status, task.payload, task.metadata, task.labels, task.version)
            for task in self.node.tasks()
        }


class OfflineNodes(RuleBasedStateMachine):
    @initialize(strategy=st.sampled_from(list(Strategy)))
    def begin(self, strategy: Strategy) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.server = ModelServer(strategy)
        self.members = [Member(self.folder, name, self.server) for name in "abc"]
        self.made: set[str] = set()
        self.was_restored = False

    @rule(who=WHO, name=NAMES, payload=st.integers(0, 3), labels=st.booleans())
    def create(self, who: int, name: str, payload: int, labels: bool) -> None:
        node = self.members[who].node
        if node.get(name) is None:
            self.made.add(node.create(name, payload=payload, labels=["new"] if labels else []))

    @rule(who=WHO, name=NAMES, field=st.sampled_from("pmlr"), value=st.integers(0, 3))
    def edit(self, who: int, name: str, field: str, value: int) -> None:
        node = self.members[who].node
        if node.get(name) is None:
            return
        change: Fields = {
            "p": {"payload": value}, "m": {"metadata": {f"k{value % 2}": value}},
            "l": {"add_labels": [f"l{value}"]}, "r": {"remove_labels": [f"l{value}", "new"]},
        }[field]  # fmt: skip
        self.made.add(node.edit(name, **change))

    @rule(who=WHO, name=NAMES)
    def ask_for_a_status(self, who: int, name: str) -> None:
        node = self.members[who].node
        if node.get(name) is not None:
            self.made.add(node.set_status(name, "completed", result=1))

    @rule(who=WHO)
    def sync(self, who: int) -> None:
        self.members[who].sync()

    @rule(who=WHO, calls=st.integers(0, 5), is_answer_lost=st.booleans())
    def die_during_a_sync(self, who: int, calls: int, is_answer_lost: bool) -> None:
        member = self.members[who]
        member.link.calls_left, member.link.is_answer_lost = calls, is_answer_lost
        try:
            member.sync()
        except Cut:
            member.restart()
        member.link.calls_left = 10**9

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.server.delete(name)

    @rule()
    def prune(self) -> None:
        self.server.prune()

    @rule()
    def backup(self) -> None:
        self.server.backup()

    @rule()
    def restore(self) -> None:
        self.was_restored = self.was_restored or self.server.saved is not None
        self.server.restore()

    def teardown(self) -> None:
        if not hasattr(self, "members"):
            return
        try:
            self.check()
        finally:
            for member in self.members:
                member.node._journal.close()
            shutil.rmtree(self.folder)

    def check(self) -> None:
        for _ in range(2):
            for member in self.members:
                member.sync()
        expected = {
            name: (
                view["status"],
                view["payload"],
                view["metadata"],
                view["labels"],
                view["version"],
            )
            for name, view in ((name, task.view()) for name, task in self.server.tasks.items())
        }
        for member in self.members:
            assert member.node.pending() == 0
            assert member.states() == expected
        assert all(count == 1 for count in self.server.applied.values())
        refused = [each.mutation_id for member in self.members for each in member.node.conflicts()]
        assert len(refused) == len(set(refused))
        assert set(refused).isdisjoint(self.server.applied)
        assert {*refused, *self.server.applied} <= self.made


OfflineNodes.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestOfflineNodes = OfflineNodes.TestCase
