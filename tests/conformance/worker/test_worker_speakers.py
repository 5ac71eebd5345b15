"""The sender of each request of a worker is judged in its transaction, on every store."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.claim_by_id import ClaimById
from holdfast.core.command import Instruction, Pause
from holdfast.core.intervention import AckOutcome
from holdfast.core.node_identity import NodeState
from holdfast.core.speaking import NodeAct, Voice
from holdfast.core.worker.wire import HeldRunState, Renew, TaskChange
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.errors import NodeFenced, NotClaimable, UnknownNode
from holdfast.sync.nodes.nodes import Nodes
from holdfast.sync.speaking import heard
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.backends import Bench
from tests.conformance.tasks.helpers import put, put_plain
from tests.conformance.worker.worker_support import Worker, one

HELD = Renew(held=(HeldRunState(task_id="t", fence=1),), lease_ms=60_000)


@pytest.fixture
async def second(
    request: pytest.FixtureRequest, store: Store, bench: Bench, clock: VirtualClock
) -> WorkerSync:
    """Another gateway on the same database. A store in memory has one connection."""
    in_memory = "sqlite-memory" in request.node.name
    return WorkerSync(store if in_memory else await bench.open(), clock, gather_seconds=0.0)


async def test_an_older_incarnation_claims_and_renews_nothing(
    store: Store, sync: WorkerSync
) -> None:
    await put(store, "t")
    old = await Worker(sync).start()
    await old.claim()
    new = await Worker(sync, boot="boot-2").start(("t", 1))
    before = await one(store, "t")
    await put(store, "u")
    with pytest.raises(NodeFenced):
        await old.claim(1, "late")
    with pytest.raises(NodeFenced):
        await sync.renew(old.voice, HELD)
    with pytest.raises(NodeFenced):
        await store.by_id.claim(
            ClaimById("u", "w1", "c", 60.0), guard=lambda: heard(old.voice, NodeAct.CLAIM)
        )
    with pytest.raises(NodeFenced):
        await store.interventions.acknowledge(
            "none", AckOutcome.DONE, node="w1", guard=lambda: heard(old.voice)
        )
    assert await one(store, "t") == before
    assert [run.task_id for run in (await sync.renew(new.voice, HELD)).kept] == ["t"]
    assert [task.id for task in await new.claim(1, "now")] == ["u"]


@pytest.mark.parametrize("state", [NodeState.CORDONED, NodeState.DRAINING])
async def test_a_node_without_new_claims_keeps_its_runs(
    store: Store, sync: WorkerSync, state: NodeState
) -> None:
    await put_plain(store, 2)
    worker = await Worker(sync).start()
    [task] = await worker.claim()
    await Nodes(store).set_state("w1", state, By("user:ann", "maintenance"))
    with pytest.raises(NotClaimable):
        await worker.claim(1, "more")
    held = HeldRunState(task_id=task.id, fence=task.fence)
    assert (await sync.renew(worker.voice, Renew(held=(held,)))).kept == (held,)
    ack = await worker.send(TaskChange(task_id=task.id, fence=task.fence, status="completed"))
    assert (ack.accepted, ack.refused) == (True, ())


@pytest.mark.parametrize("state", [NodeState.QUARANTINED, NodeState.REVOKED])
async def test_a_node_that_is_shut_out_does_nothing(
    store: Store, sync: WorkerSync, state: NodeState
) -> None:
    await put(store, "t")
    worker = await Worker(sync).start()
    await Nodes(store).set_state("w1", state, By("user:ann", "odd"))
    with pytest.raises(NodeFenced):
        await worker.claim()
    with pytest.raises(NodeFenced):
        await sync.renew(worker.voice, HELD)
    assert (await worker.send()).reason == "node_fenced"


async def test_a_node_that_has_not_registered_is_unknown(sync: WorkerSync) -> None:
    with pytest.raises(UnknownNode):
        await Worker(sync, "stranger").claim()
    with pytest.raises(UnknownNode):
        await sync.renew(Voice("stranger"), HELD)


async def test_one_claim_at_two_gateways_gets_one_offer(
    store: Store, sync: WorkerSync, second: WorkerSync
) -> None:
    await put_plain(store, 20)
    first = await Worker(sync).start()
    twin = Worker(second)
    twin.incarnation = first.incarnation
    for n in range(5):
        one_offer, other = await asyncio.gather(first.claim(2, f"c{n}"), twin.claim(2, f"c{n}"))
        assert len(one_offer) == 2
        assert [task.run for task in one_offer] == [task.run for task in other]


async def test_a_late_result_names_its_sender_and_comes_from_no_other(
    store: Store, sync: WorkerSync
) -> None:
    await put(store, "t")
    worker, other = await Worker(sync).start(), await Worker(sync, "w2").start()
    await worker.claim()
    await store.apply([Instruction("t", Pause("user:ann"))])
    late = TaskChange(task_id="t", fence=1, status="completed", result_json='"r"')
    assert [refused.code for refused in (await other.send(late)).refused] == ["lease-lost"]
    assert [refused.code for refused in (await worker.send(late)).refused] == ["lease-lost"]
    events = [event for event in await store.feed.history("t") if event.kind == "task.late"]
    assert [(event.data["node"], event.data["fence"]) for event in events] == [("w1", 1)]
