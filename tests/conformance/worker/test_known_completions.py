"""Completions of tasks that the gateway remembers: the same rows, events and refusals as of those that it
reads first."""

from __future__ import annotations

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Instruction
from holdfast.core.task import Status, Task
from holdfast.core.worker.wire import OutputChunk, TaskChange
from holdfast.store.store import Store
from holdfast.sync.worker import plain
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.conformance.tasks.helpers import check_counters, put
from tests.conformance.worker.worker_support import Worker, kinds_of, one, output_of


def done(task: Task, result_json: str = "null") -> TaskChange:
    return TaskChange(
        task_id=task.id, fence=task.fence, status="completed", result_json=result_json
    )


async def running(store: Store, sync: WorkerSync, *ids: str) -> tuple[Worker, list[Task]]:
    for task_id in ids:
        await put(store, task_id)
    worker = await Worker(sync).start()
    tasks = await worker.claim(slots=len(ids))
    assert sorted(task.id for task in tasks) == sorted(ids)
    return worker, sorted(tasks, key=lambda task: task.id)


@pytest.mark.parametrize("is_known", [True, False])
async def test_the_way_of_a_completion_does_not_show(
    store: Store, sync: WorkerSync, clock: VirtualClock, is_known: bool
) -> None:
    worker, tasks = await running(store, sync, "b", "a")
    reader = sync if is_known else WorkerSync(store, clock)
    worker.sync = reader
    ack = await worker.send(*[done(task, '{"n": 1}') for task in tasks])
    assert (ack.accepted, ack.refused) == (True, ())
    for task in tasks:
        after = await one(store, task.id)
        assert (after.status, after.version, after.result) == (Status.COMPLETED, 3, {"n": 1})
        assert (after.node, after.lease_until) == (None, None)
        assert await kinds_of(store, task.id) == ["task.enqueued", "task.started", "task.completed"]
    await check_counters(store)


async def test_a_task_that_changed_since_its_claim_is_ruled_by_its_row(
    store: Store, sync: WorkerSync
) -> None:
    worker, (kept, taken) = await running(store, sync, "kept", "taken")
    await store.apply([Instruction("taken", Abort("ann", "enough"))])
    ack = await worker.send(done(kept), done(taken))
    assert [(part.task_id, part.code) for part in ack.refused] == [("taken", "lease-lost")]
    assert (await one(store, "kept")).status is Status.COMPLETED
    assert (await one(store, "taken")).status is Status.ABORTED
    assert (await kinds_of(store, "kept")).count("task.completed") == 1
    await check_counters(store)


async def test_other_changes_of_a_message_are_applied_before_the_end(
    store: Store, sync: WorkerSync
) -> None:
    worker, (task,) = await running(store, sync, "t")
    chunk = OutputChunk(task_id="t", fence=1, start=0, data=b"x")
    ack = await worker.send(chunk, done(task))
    assert ack.refused == ()
    assert await output_of(store, "t", 1) == b"x"
    assert (await one(store, "t")).status is Status.COMPLETED


async def test_two_ends_of_one_run_are_ruled_in_order(store: Store, sync: WorkerSync) -> None:
    worker, (task,) = await running(store, sync, "t")
    await worker.send(done(task, "1"), done(task, "2"))
    assert (await one(store, "t")).result == 1
    assert (await kinds_of(store, "t")).count("task.completed") == 1


async def test_another_node_cannot_complete_a_known_task(store: Store, sync: WorkerSync) -> None:
    _, (task,) = await running(store, sync, "t")
    other = await Worker(sync, "w2", "boot-2").start()
    ack = await other.send(done(task))
    assert [part.code for part in ack.refused] == ["not-runner"]
    assert (await one(store, "t")).status is Status.RUNNING


async def test_few_tasks_are_remembered(
    store: Store, sync: WorkerSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "KNOWN_MAX", 1)
    worker, tasks = await running(store, sync, "a", "b", "c")
    assert len(sync._known.tasks) == 1
    ack = await worker.send(*map(done, tasks))
    assert ack.refused == ()
    assert len(sync._known.tasks) == 0
