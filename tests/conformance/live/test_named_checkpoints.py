"""Named checkpoints of a run: a row beside the report, one for each id, the last of a task kept."""

from __future__ import annotations

from holdfast.clock import VirtualClock
from holdfast.core.command import Instruction, NamedPoint, Report
from holdfast.core.decide import Ruling
from holdfast.core.task import Task
from holdfast.store.scripts.checkpoints import CHECKPOINTS_MAX
from holdfast.store.store import Store
from holdfast.sync.worker.reads import checkpoints
from tests.conformance.tasks.helpers import claim_one, code, get, kinds, put, read_all


async def save(store: Store, task: Task, point: NamedPoint, value: str) -> Ruling:
    report = Report(checkpoint_json=value, point=point)
    instruction = Instruction(task.id, report, fence=task.fence)
    return await store.runs.save_point(instruction, report, point)


async def test_a_named_checkpoint_has_a_row_and_an_event(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    point = NamedPoint("ckp_1", "plan-ready", "two hosts")
    assert code(await save(store, task, point, '{"hosts":2}')) == "moved"
    row = (await checkpoints(store, "a"))[0]
    assert (row.id, row.type, row.note, row.fence) == ("ckp_1", "plan-ready", "two hosts", 1)
    current = await get(store, "a")
    assert (current.checkpoint, current.version) == ({"hosts": 2}, task.version)
    event = (await read_all(store))[-1]
    assert (event.kind, event.version) == ("checkpoint.created", task.version)
    assert (event.checkpoint_id, event.data["type"], event.note, event.fence) == (
        *("ckp_1", "plan-ready", "two hosts", 1),
    )


async def test_a_repeat_adds_nothing(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    point = NamedPoint("ckp_1", "plan")
    await save(store, task, point, "1")
    assert code(await save(store, task, point, "1")) == "already-applied"
    assert code(await save(store, task, NamedPoint("ckp_2", "plan"), "1")) == "moved", "another"
    assert [row.id for row in await checkpoints(store, "a")] == ["ckp_1", "ckp_2"]
    assert (await kinds(store, "a")).count("checkpoint.created") == 2


async def test_a_run_that_lost_its_task_adds_nothing(store: Store, clock: VirtualClock) -> None:
    await put(store, "a")
    task = await claim_one(store)
    clock.set(clock.now() + 9.0)
    await store.sweep()
    assert code(await save(store, task, NamedPoint("ckp_1", "plan"), "1")) == "lease-lost"
    assert await checkpoints(store, "a") == []
    assert (await get(store, "a")).checkpoint is None


async def test_the_last_checkpoints_are_kept(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    for n in range(CHECKPOINTS_MAX + 2):
        await save(store, task, NamedPoint(f"ckp_{n}", "page"), str(n))
    rows = await checkpoints(store, "a")
    assert [row.id for row in rows] == [f"ckp_{n}" for n in range(2, CHECKPOINTS_MAX + 2)]
