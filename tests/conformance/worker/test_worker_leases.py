"""Claims and renewals over the wire on every store."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Instruction, Pause, Reassign
from holdfast.core.hub_rules import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN
from holdfast.core.limit import LimitRule
from holdfast.core.node_identity import NodeState
from holdfast.core.priority import AGED_EVERY, AGEING_SECONDS
from holdfast.core.speaking import Voice
from holdfast.core.task import Priority, Status
from holdfast.core.worker.wire import HeldRunState, Renew, TaskChange
from holdfast.errors import BatchTooLarge, InvalidInput
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.nodes.nodes import Nodes, Registration
from holdfast.sync.worker.receivers import Start
from holdfast.sync.worker.worker_sync import (
    HELD_MAX,
    LEASE_SECONDS,
    WorkerSync,
    lease_seconds,
)
from tests.conformance.tasks.helpers import put, put_plain
from tests.conformance.worker.worker_support import Worker, one


async def test_a_repeated_claim_gets_the_same_tasks(store: Store, sync: WorkerSync) -> None:
    await put_plain(store, 5)
    worker = await Worker(sync).start()
    first = await worker.claim(2, "c-1", lease=30.0)
    assert len(first) == 2
    assert [(t.claim_id, t.lease_seconds) for t in first] == [("c-1", 30.0)] * 2
    again = await worker.claim(2, "c-1", lease=30.0)
    assert [(t.id, t.fence) for t in again] == [(t.id, t.fence) for t in first]
    other = await worker.claim(2, "c-2")
    assert {t.id for t in other}.isdisjoint(t.id for t in first)
    row = await one(store, first[0].id)
    assert (row.claim_id, row.lease_seconds, row.node) == ("c-1", 30.0, "w1")


async def test_a_claim_id_belongs_to_its_node(store: Store, sync: WorkerSync) -> None:
    await put_plain(store, 2)
    first = await (await Worker(sync, "w1").start()).claim(1, "same")
    second = await (await Worker(sync, "w2").start()).claim(1, "same")
    assert first[0].id != second[0].id


async def test_a_claim_respects_limits(store: Store, sync: WorkerSync) -> None:
    rules = (("cap", LimitRule(max_running=1)),)
    for n in range(3):
        await put(store, f"l{n}", type="limited", rules=rules)
    worker = await Worker(sync).start()
    assert len(await worker.claim(3, "c-1")) == 1
    assert await worker.claim(3, "c-2") == []


async def test_aged_tasks_get_their_share_of_the_claims(
    store: Store, sync: WorkerSync, clock: VirtualClock
) -> None:
    """A worker that takes one task at a time, while urgent ones keep coming."""
    await put(store, "aged", priority=Priority.LOW)
    clock.set(clock.now() + 2 * AGEING_SECONDS)
    worker = await Worker(sync).start()
    starts: list[str] = []
    for n in range(2 * AGED_EVERY):
        await put_plain(store, 2)
        starts += [task.id for task in await worker.claim(1, f"c-{n}")]
    assert len(starts) == 2 * AGED_EVERY
    assert "aged" in starts[: AGED_EVERY + 1]


async def test_a_task_that_is_reserved_for_the_worker_goes_first(
    store: Store, sync: WorkerSync, clock: VirtualClock
) -> None:
    await put(store, "mine")
    await put_plain(store, 3)
    worker, other = await Worker(sync).start(), await Worker(sync, "w2").start()
    await store.apply([Instruction("mine", Reassign("user:ann", "w1", None, "why"))])
    assert "mine" not in [task.id for task in await other.claim(1, "theirs")]
    first = await worker.claim(2, "c-1")
    assert len(first) == 2
    assert "mine" in [task.id for task in first]
    again = await worker.claim(2, "c-1")
    assert [(t.id, t.fence) for t in again] == [(t.id, t.fence) for t in first]


async def test_an_idle_worker_finds_a_reserved_task_at_once(store: Store, sync: WorkerSync) -> None:
    worker = await Worker(sync).start()
    assert await worker.claim(1, "c-1") == []
    await put(store, "mine")
    await store.apply([Instruction("mine", Reassign("user:ann", "w1", None, "why"))])
    assert [task.id for task in await worker.claim(1, "c-2")] == ["mine"]


async def test_a_claim_of_every_kind_of_task_is_whole_at_each_gateway(
    store: Store, sync: WorkerSync, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another gateway gets the same claim between any two transactions of the first one."""
    rules = (("cap", LimitRule(max_running=1)),)
    await put(store, "reserved")
    await put(store, "aged", priority=Priority.LOW)
    clock.set(clock.now() + 2 * AGEING_SECONDS)
    await put(store, "limited", type="limited", rules=rules)
    await put_plain(store, 2 * AGED_EVERY)
    first = await Worker(sync).start()
    second = Worker(WorkerSync(store, clock, gather_seconds=0.0))
    second.incarnation = first.incarnation
    await store.apply([Instruction("reserved", Reassign("user:ann", "w1", None, "why"))])
    run, offers = store.run, list[list[str]]()

    async def run_then_repeat(*args: Any, **options: Any) -> Any:
        answer = await run(*args, **options)
        if not offers:
            offers.append([])
            offers[0] = [task.id for task in await second.claim(AGED_EVERY + 1, "c-1")]
        return answer

    monkeypatch.setattr(Store, "run", staticmethod(run_then_repeat))
    offer = [task.id for task in await first.claim(AGED_EVERY + 1, "c-1")]
    assert offers == [offer]
    assert len(offer) == AGED_EVERY + 1
    assert {"reserved", "aged"} <= set(offer)


async def test_a_renewal_extends_leases_and_names_losses(
    store: Store, sync: WorkerSync, clock: VirtualClock
) -> None:
    for name in ("kept", "paused", "aborted", "done", "other"):
        await put(store, name)
    worker = await Worker(sync).start()
    tasks = {task.id: task for task in await worker.claim(5)}
    assert len(tasks) == 5
    await store.apply([Instruction("paused", Pause("user:ann"))])
    await store.apply([Instruction("aborted", Abort("user:ann"))])
    await worker.send(TaskChange(task_id="done", fence=1, status="completed"))
    await worker.send(TaskChange(task_id="other", fence=1, status="queued"))
    await (await Worker(sync, "w2").start()).claim(1, "theirs")
    clock.set(clock.now() + 1.0)
    held = tuple(HeldRunState(task_id=name, fence=1) for name in [*tasks, "missing"])
    answer = await sync.renew(Voice("w1"), Renew(held=held, lease_ms=30_000))
    assert [run.task_id for run in answer.kept] == ["kept"]
    assert {run.task_id: run.reason for run in answer.lost} == {
        "paused": "paused",
        "aborted": "aborted",
        "other": "reclaimed",
        "missing": "gone",
    }
    assert (await one(store, "kept")).lease_until == pytest.approx(store.now() + 30.0, abs=0.5)


async def test_a_completion_is_a_loss_for_earlier_runs_only(
    store: Store, sync: WorkerSync, clock: VirtualClock
) -> None:
    await put(store, "t")
    first, second = await Worker(sync).start(), await Worker(sync, "w2").start()
    await first.claim(lease=5.0)
    clock.set(clock.now() + 6.0)
    await store.sweep()
    clock.set(clock.now() + 3_600.0)
    (task,) = await second.claim()
    await second.send(TaskChange(task_id="t", fence=task.fence, status="completed"))
    answers = [
        await sync.renew(worker.voice, Renew(held=(HeldRunState(task_id="t", fence=fence),)))
        for worker, fence in ((first, 1), (second, task.fence))
    ]
    assert [[run.reason for run in answer.lost] for answer in answers] == [["completed"], []]
    assert [answer.kept for answer in answers] == [(), ()]


async def test_a_node_cannot_renew_the_lease_of_another(store: Store, sync: WorkerSync) -> None:
    await put(store, "t")
    await (await Worker(sync, "w1").start()).claim()
    before = (await one(store, "t")).lease_until
    await Worker(sync, "w2").start()
    answer = await sync.renew(Voice("w2"), Renew(held=(HeldRunState(task_id="t", fence=1),)))
    assert [run.reason for run in answer.lost] == ["reclaimed"]
    assert (await one(store, "t")).lease_until == before


async def test_a_lost_lease_returns_the_task(
    store: Store, sync: WorkerSync, clock: VirtualClock
) -> None:
    await put(store, "t")
    worker = await Worker(sync).start()
    await worker.claim(lease=5.0)
    clock.set(clock.now() + 6.0)
    await store.sweep()
    answer = await sync.renew(Voice("w1"), Renew(held=(HeldRunState(task_id="t", fence=1),)))
    assert [run.task_id for run in answer.lost] == ["t"]
    ack = await worker.send(TaskChange(task_id="t", fence=1, status="completed"))
    assert [refused.code for refused in ack.refused] == ["lease-lost"]
    assert (await one(store, "t")).status is Status.QUEUED


async def test_bounds_of_requests(sync: WorkerSync) -> None:
    held = tuple(HeldRunState(task_id=f"t{n}") for n in range(HELD_MAX + 1))
    with pytest.raises(BatchTooLarge):
        await sync.renew(Voice("w1"), Renew(held=held))
    with pytest.raises(InvalidInput):
        await Worker(sync).claim(1, "")


@pytest.mark.parametrize(
    ("asked_ms", "granted"),
    [
        (0, LEASE_SECONDS),
        (1, LEASE_SECONDS_MIN),
        (30_000, 30.0),
        (10**9, LEASE_SECONDS_MAX),
    ],
)
def test_a_lease_is_clamped(asked_ms: int, granted: float) -> None:
    assert lease_seconds(asked_ms) == granted


async def test_a_registration_fences_the_older_incarnation_at_once(
    store: Store, sync: WorkerSync
) -> None:
    """The new process has registered but not said hello yet."""
    nodes = Nodes(store)
    first = await nodes.register(Registration(node="w1", project="default", boot_id="a"), By("x"))
    await sync.hello(Start("w1", first.incarnation, "a", registered=first.incarnation))
    worker = Worker(sync)
    worker.incarnation = first.incarnation
    assert (await worker.send()).accepted
    second = await nodes.register(Registration(node="w1", project="default", boot_id="b"), By("x"))
    assert (await worker.send()).reason == "node_fenced"
    worker.incarnation, worker.sequence = second.incarnation, 0
    assert (await worker.send()).sequence == 1
    assert (await worker.send()).sequence == 2


async def test_a_node_that_is_shut_out_applies_nothing(store: Store, sync: WorkerSync) -> None:
    nodes = Nodes(store)
    first = await nodes.register(Registration(node="w1", project="default", boot_id="a"), By("x"))
    await sync.hello(Start("w1", first.incarnation, "a", registered=first.incarnation))
    worker = Worker(sync)
    worker.incarnation = first.incarnation
    await nodes.set_state("w1", NodeState.QUARANTINED, By("user:ann", "odd"))
    assert (await worker.send()).reason == "node_fenced"
    await nodes.set_state("w1", NodeState.LIVE, By("user:ann", "fine"))
    assert (await worker.send(sequence=1)).accepted
