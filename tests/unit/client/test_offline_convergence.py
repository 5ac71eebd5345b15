"""Three offline nodes and a model server: any interleaving of edits, syncs, lost answers, crashes, deletions,
pruning and restores. At the end all agree, and every change was applied once or is kept as a conflict."""

from __future__ import annotations

import asyncio
import random
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
from holdfast.core.exchange.strategy import Strategy
from holdfast.core.ids import Ids
from holdfast.errors import InvalidInput
from tests.unit.client.client_support import http_of
from tests.unit.client.sync_model import BODY_MAX, Fields, ModelServer

NAMES = st.sampled_from(["t1", "t1", "t2"])
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

    def __init__(self, name: str, server: ModelServer) -> None:
        self.name = name
        self.link = Shaky(server)
        self.journal = Journal(":memory:")
        self.http = http_of(lambda request: pytest.fail("no request"))
        self.http.ids = Ids(random.Random(name))
        self.restart()

    def restart(self) -> None:
        self.node = Node(Path(), Identity(node_id=self.name), self.journal, self.http, None)

    def sync(self) -> None:
        exchange = Exchange(self.journal, self.link, self.name, VirtualClock())
        asyncio.run(exchange.sync())

    def states(self) -> dict[str, Any]:
        return {
            task.id: (task.status, task.payload, task.metadata, task.labels, task.version)
            for task in self.node.tasks()
        }


class OfflineNodes(RuleBasedStateMachine):
    @initialize(strategy=st.sampled_from(list(Strategy)))
    def begin(self, strategy: Strategy) -> None:
        self.server = ModelServer(strategy)
        self.count = 0
        self.members = [Member(name, self.server) for name in "abc"]
        self.made: set[str] = set()
        self.hopeless: set[str] = set()
        """Changes that the server can never take."""
        self.create(0, "t1", 0, labels=True)
        for member in self.members:
            member.sync()

    @rule(who=WHO, name=NAMES, payload=st.integers(0, 3), labels=st.booleans())
    def create(self, who: int, name: str, payload: int, labels: bool) -> None:
        node = self.members[who].node
        if node.get(name) is None:
            self.made.add(node.create(name, payload=payload, labels=["new"] if labels else []))

    @rule(
        edits=st.lists(
            st.tuples(WHO, NAMES, st.sampled_from("ppmlr"), st.integers(0, 3)), max_size=6
        )
    )
    def edit(self, edits: list[tuple[int, str, str, int]]) -> None:
        for who, name, field, value in edits:
            node = self.members[who].node
            if node.get(name) is None:
                continue
            changes: dict[str, Fields] = {
                "p": {"payload": value}, "m": {"metadata": {f"k{value % 2}": value}},
                "l": {"add_labels": [f"l{value}"]}, "r": {"remove_labels": [f"l{value}", "new"]},
            }  # fmt: skip
            try:
                self.made.add(node.edit(name, **changes[field]))
            except InvalidInput:
                assert self.count, "only on top of what is not valid"

    @rule(who=WHO, name=NAMES, field=st.sampled_from(["labels", "metadata", "payload"]))
    def write_what_is_not_valid(self, who: int, name: str, field: str) -> None:
        """As another version of the client may have written it: too large, or against a rule."""
        member = self.members[who]
        if member.node.get(name) is None:
            return
        bad: Fields = {
            "labels": {"add": ["a\nb"]},
            "metadata": {"k0": "x" * 20_000},
            "payload": "x" * BODY_MAX,
        }
        self.count += 1
        mutation_id = f"bad-{self.count}"
        log = member.journal.log(name)
        replica = member.journal.replica(name)
        version = log[-1].base_version if log else replica.version if replica else 0
        member.journal.append(mutation_id, name, version, None, {field: bad[field]})
        self.made.add(mutation_id)
        if field == "labels":
            # A later change of the same author may replace the others before they are sent.
            self.hopeless.add(mutation_id)

    @rule(who=WHO, count=st.integers(1, 6))
    def write_much(self, who: int, count: int) -> None:
        """More than one request can carry."""
        node = self.members[who].node
        for n in range(count):
            if node.get(f"big-{n}") is None:
                self.made.add(node.create(f"big-{n}", payload="x" * 1_200))

    @rule(who=WHO, name=NAMES)
    def ask_for_a_status(self, who: int, name: str) -> None:
        node = self.members[who].node
        if node.get(name) is not None:
            self.made.add(node.set_status(name, "completed", result=1))

    @rule(order=st.permutations([0, 1, 2]), count=st.integers(1, 3))
    def sync(self, order: list[int], count: int) -> None:
        for who in order[:count]:
            self.members[who].sync()

    @rule(who=WHO, name=NAMES, calls=st.integers(0, 2), is_answer_lost=st.booleans())
    def die_during_a_sync(self, who: int, name: str, calls: int, is_answer_lost: bool) -> None:
        """The process ends in the middle of a sync, and goes on with its work after it starts again."""
        member = self.members[who]
        self.edit([(who, name, "p", calls)])
        member.link.calls_left, member.link.is_answer_lost = calls, is_answer_lost
        try:
            member.sync()
        except Cut:
            member.restart()
            self.edit([(who, name, "p", 3)])
        member.link.calls_left = 10**9

    @rule(what=st.sampled_from(["delete", "prune", "backup", "restore"]), name=NAMES)
    def change_the_server(self, what: str, name: str) -> None:
        match what:
            case "delete":
                self.server.delete(name)
            case "prune":
                self.server.prune()
            case "backup":
                self.server.backup()
            case _:
                self.server.restore()

    def teardown(self) -> None:
        if not hasattr(self, "members"):
            return
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
        assert self.hopeless <= set(refused), "what is refused for good is set aside, and seen"


OfflineNodes.TestCase.settings = settings(max_examples=60, stateful_step_count=15)
TestOfflineNodes = OfflineNodes.TestCase


def test_what_was_sent_is_not_joined_with_what_came_later() -> None:
    server = ModelServer(Strategy.MERGE)
    member = Member("a", server)
    member.node.create("t", payload=1)
    member.link.calls_left, member.link.is_answer_lost = 1, True
    with pytest.raises(Cut):
        member.sync()
    member.restart()
    member.node.edit("t", payload=2)
    member.link.calls_left = 10**9
    member.sync()
    assert member.states() == {"t": ("queued", 2, {}, [], 2)}
    assert member.node.conflicts() == []


def test_a_write_that_was_merged_is_read_again() -> None:
    server = ModelServer(Strategy.MERGE)
    a, b = Member("a", server), Member("b", server)
    a.node.create("t", payload=1)
    a.sync()
    b.sync()
    a.node.edit("t", metadata={"a": 1})
    b.node.edit("t", metadata={"b": 2})
    a.sync()
    b.sync()
    assert b.states()["t"][2] == {"a": 1, "b": 2}


def test_a_restored_server_gets_the_changes_that_were_not_sent() -> None:
    server = ModelServer(Strategy.MERGE)
    a = Member("a", server)
    a.node.create("t", payload=1)
    a.sync()
    server.backup()
    for value in (2, 3, 4):
        a.node.edit("t", payload=value)
        a.sync()
    a.node.edit("t", payload=5)
    server.restore()
    a.sync()
    assert a.states() == {"t": ("queued", 5, {}, [], 2)}
    assert a.node.conflicts() == []
