"""Nodes with an identity: starts, credentials, heartbeats and states, with their events and claims."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Pause, Resume
from holdfast.core.node_identity import REPEAT_SECONDS, NodeState
from holdfast.core.speaking import Voice
from holdfast.core.task import Status
from holdfast.errors import Conflict, InvalidInput
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.access.tokens import Tokens
from holdfast.sync.errors import NodeFenced, UnknownNode
from holdfast.sync.nodes.nodes import Nodes, Registered, Registration
from tests.conformance.tasks.helpers import check_counters, claim, get, order, put, read_all

OPS = By("user:ann", "test")


@pytest.fixture
def nodes(store: Store) -> Nodes:
    return Nodes(store)


async def start(nodes: Nodes, name: str = "plugin-a", **fields: Any) -> Registered:
    request = {"node": name, "project": "forge", **fields}
    return await nodes.register(Registration(**request), OPS)


async def kinds(store: Store) -> list[str]:
    return [event.kind for event in await read_all(store)]


async def test_a_start_returns_a_credential_once(store: Store, nodes: Nodes) -> None:
    first = await start(nodes, boot_id="b1", capabilities=["fence", "run"], labels={"os": "linux"})
    assert first.incarnation == 1
    assert first.credential is not None
    token = await Tokens(store).find(first.credential)
    assert token is not None
    principal = token.as_principal()
    assert (principal.node, principal.projects) == ("plugin-a", frozenset({"forge"}))
    second = await start(nodes, boot_id="b2")
    assert (second.incarnation, second.credential) == (2, None)
    row = await nodes.get("plugin-a")
    assert (row.kind, row.project, row.incarnation) == ("plugin", "forge", 2)
    assert await kinds(store) == ["node.registered", "node.fenced", "node.registered"]


async def test_a_repeated_start_is_the_same_incarnation(store: Store, nodes: Nodes) -> None:
    first = await start(nodes, boot_id="b1")
    again = await start(nodes, boot_id="b1")
    assert (again.incarnation, again.is_repeat) == (1, True)
    assert again.credential not in (None, first.credential)
    assert await Tokens(store).find(again.credential or "") is not None
    assert await kinds(store) == ["node.registered"]


async def test_a_repeated_start_ends_no_credential(
    store: Store, nodes: Nodes, clock: VirtualClock
) -> None:
    """The repeat may come late, by a slow way: the node has the answer to the first request."""
    first = await start(nodes, boot_id="b1")
    again = await start(nodes, boot_id="b1")
    clock.set(clock.now() + 1_000)
    tokens = Tokens(store)
    credentials = [first.credential or "", again.credential or ""]
    assert None not in [await tokens.find(credential) for credential in credentials]
    await start(nodes, boot_id="b2", rotate=True)
    clock.set(clock.now() + 601)
    assert [await tokens.find(credential) for credential in credentials] == [None, None]


async def test_a_late_repeat_gets_a_credential_until_one_was_used(
    store: Store, nodes: Nodes, clock: VirtualClock
) -> None:
    """The answer with the credential is lost, and the node repeats its request after more than a minute. It
    has no other way to get a credential."""
    await start(nodes, boot_id="b1")
    clock.set(clock.now() + REPEAT_SECONDS + 1)
    late = await start(nodes, boot_id="b1")
    assert (late.incarnation, late.is_repeat) == (2, False)
    assert late.credential is not None
    assert await Tokens(store).find(late.credential) is not None  # its first use
    clock.set(clock.now() + REPEAT_SECONDS + 1)
    restart = await start(nodes, boot_id="b1")
    assert (restart.incarnation, restart.credential) == (3, None)


async def test_another_process_gets_no_credential_for_an_unused_one(
    nodes: Nodes, clock: VirtualClock
) -> None:
    await start(nodes, boot_id="b1")
    clock.set(clock.now() + REPEAT_SECONDS + 1)
    assert (await start(nodes, boot_id="b2")).credential is None


async def test_a_revoked_node_loses_all_its_credentials(store: Store, nodes: Nodes) -> None:
    started = [await start(nodes, boot_id="b1"), await start(nodes, boot_id="b1")]
    await nodes.set_state("plugin-a", NodeState.REVOKED, OPS)
    tokens = Tokens(store)
    assert [await tokens.find(each.credential or "") for each in started] == [None, None]


async def test_a_rotated_credential_ends_after_a_while(
    store: Store, nodes: Nodes, clock: VirtualClock
) -> None:
    first = await start(nodes, boot_id="b1")
    clock.set(clock.now() + 100)
    second = await start(nodes, boot_id="b2", rotate=True)
    tokens = Tokens(store)
    assert first.credential
    assert second.credential
    assert await tokens.find(first.credential) is not None
    clock.set(clock.now() + 601)
    assert await tokens.find(first.credential) is None
    assert await tokens.find(second.credential) is not None


async def test_a_start_ends_the_claims_of_earlier_incarnations(store: Store, nodes: Nodes) -> None:
    await start(nodes)
    await put(store, "kept")
    await put(store, "dropped")
    claimed = {task.id: task for task in await claim(store, node="plugin-a", lease_seconds=300.0)}
    fences = [("kept", claimed["kept"].fence)]
    answer = await start(nodes, resume=[*fences, ("dropped", 99)])
    assert [(task.task_id, task.fence) for task in answer.resumed] == fences
    assert [task.task_id for task in answer.lost] == ["dropped"]
    kept, dropped = await get(store, "kept"), await get(store, "dropped")
    assert (kept.status, kept.version) == (Status.RUNNING, claimed["kept"].version)
    assert (dropped.status, dropped.deaths, dropped.node) == (Status.QUEUED, 1, None)
    assert dropped.fence == claimed["dropped"].fence + 1
    assert (await kinds(store))[-3:] == ["node.fenced", "node.registered", "task.lost"]
    await check_counters(store)


async def test_two_processes_with_one_identity_are_quarantined(store: Store, nodes: Nodes) -> None:
    for boot_id in "abab":
        await start(nodes, boot_id=boot_id)
    for _ in range(2):
        with pytest.raises(NodeFenced):
            await start(nodes, boot_id="a")
    assert (await nodes.get("plugin-a")).state == NodeState.QUARANTINED
    assert (await kinds(store))[-1] == "node.cloned"
    await nodes.set_state("plugin-a", NodeState.LIVE, OPS)
    assert (await start(nodes, boot_id="a")).incarnation == 5


async def test_a_name_belongs_to_one_project(nodes: Nodes) -> None:
    await start(nodes)
    with pytest.raises(Conflict, match="another project"):
        await start(nodes, project="other")


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a/b"},
        {"project": "All"},
        {"kind": "toaster"},
        {"boot_id": ""},
        {"labels": {"a": "b" * 201}},
        {"capabilities": ["x"] * 101},
        {"resume": [("t", -1)]},
    ],
    ids=str,
)
async def test_a_bad_registration_is_refused(nodes: Nodes, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await start(nodes, **fields)


async def test_a_heartbeat_never_extends_a_lease(
    store: Store, nodes: Nodes, clock: VirtualClock
) -> None:
    await start(nodes)
    await put(store, "a")
    [task] = await claim(store, node="plugin-a", lease_seconds=30.0)
    clock.set(clock.now() + 10)
    head = await store.feed.head()
    beat = await nodes.beat(
        Voice("plugin-a", 1), local_clock=7, position=str(head), running=1, slots=4
    )
    assert [(run.task_id, run.fence, run.expires_in_seconds) for run in beat.held] == [
        ("a", task.fence, 20.0)
    ]
    assert (await get(store, "a")).lease_until == task.lease_until
    [view] = await nodes.list("forge")
    assert (view.is_live, view.running, view.lag_events) == (True, 1, 0)
    assert view.row.clock == 7


async def test_a_heartbeat_of_another_incarnation_is_refused(nodes: Nodes) -> None:
    with pytest.raises(UnknownNode):
        await nodes.beat(Voice("plugin-a"))
    await start(nodes)
    await start(nodes)
    with pytest.raises(NodeFenced):
        await nodes.beat(Voice("plugin-a", 1))
    await nodes.beat(Voice("plugin-a", 2))


async def test_a_silent_node_is_lost_and_comes_back(
    store: Store, nodes: Nodes, clock: VirtualClock
) -> None:
    await start(nodes)
    clock.set(clock.now() + 61)
    [view] = await nodes.list("forge")
    assert not view.is_live
    await store.upkeep.lose_nodes(forget_before=clock.now() - 10)
    assert (await kinds(store))[-1] == "node.lost"
    await store.upkeep.lose_nodes(forget_before=clock.now() + 1e6)
    await nodes.beat(Voice("plugin-a"))
    assert (await kinds(store))[-1] == "node.state"
    assert (await nodes.list("forge"))[0].is_live


@pytest.mark.parametrize("why", ["restarts", "drains"])
async def test_a_node_that_restarts_or_drains_is_not_preferred(
    store: Store, nodes: Nodes, clock: VirtualClock, why: str
) -> None:
    await start(nodes, boot_id="b1")
    await put(store, "a")
    await claim(store, 1, node="plugin-a")
    await order(store, "a", Pause("user:ann"))
    clock.set(clock.now() + 39)
    affinity = await store.reads.affinity(["a"], 30.0)
    await order(store, "a", Resume("user:ann", affinity=affinity))
    assert (await get(store, "a")).assigned_to == "plugin-a"
    if why == "restarts":
        await start(nodes, boot_id="b2")
    else:
        await nodes.set_state("plugin-a", NodeState.DRAINING, OPS)
    assert (await get(store, "a")).assigned_to is None
    assert [task.id for task in await claim(store, 1, node="b")] == ["a"]


async def test_lists_have_pages_and_a_filter(nodes: Nodes) -> None:
    for name in "abc":
        await start(nodes, name)
    await nodes.set_state("b", NodeState.CORDONED, OPS)
    assert [view.row.id for view in await nodes.list("forge", limit=2)] == ["a", "b"]
    assert [view.row.id for view in await nodes.list("forge", after="b")] == ["c"]
    assert [view.row.id for view in await nodes.list("forge", state="cordoned")] == ["b"]
    assert await nodes.list("other") == []


async def test_a_revoked_node_loses_its_claims_and_its_credential(
    store: Store, nodes: Nodes
) -> None:
    first = await start(nodes)
    await put(store, "a")
    await claim(store, node="plugin-a")
    await nodes.set_state("plugin-a", NodeState.REVOKED, OPS)
    assert first.credential
    assert await Tokens(store).find(first.credential) is None
    assert (await get(store, "a")).status is Status.QUEUED
    assert "node.revoked" in await kinds(store)
    with pytest.raises(NodeFenced):
        await start(nodes)
    with pytest.raises(NodeFenced):
        await nodes.beat(Voice("plugin-a"))
