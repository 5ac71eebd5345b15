"""Output and totals of a run that the database is open to: rows and events as for messages of workers."""

from __future__ import annotations

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import GetStuck, Instruction, OutputPart, Report
from holdfast.core.decide import Ruling
from holdfast.core.output import FOLD_BYTES, HEAD_BYTES, TAIL_BYTES
from holdfast.core.task import Status, Task
from holdfast.errors import Conflict
from holdfast.store.store import Store
from holdfast.sync.worker.reads import output_page
from tests.conformance.tasks.helpers import claim_one, code, get, kinds, put, read_all

MIB = 1_048_576


async def report(store: Store, task: Task, given: Report) -> Ruling:
    return await store.runs.report(Instruction(task.id, given, fence=task.fence), given)


async def write(store: Store, task: Task, start: int, data: bytes) -> Ruling:
    return await report(store, task, Report(output=OutputPart("stdout", start, data)))


async def stored(store: Store, task: Task) -> bytes:
    return (await output_page(store, task, "stdout", size=MIB)).data


async def test_output_leaves_the_task_as_it_is(store: Store, clock: VirtualClock) -> None:
    await put(store, "a")
    task = await claim_one(store)
    clock.set(clock.now() + 1.0)
    assert code(await write(store, task, 0, b"one ")) == "already-applied"
    await write(store, task, 4, b"two")
    assert await get(store, "a") == task
    assert await stored(store, task) == b"one two"
    event = (await read_all(store))[-1]
    assert (event.kind, event.version, event.fence) == ("task.output", task.version, 1)
    assert (event.data["stream"], event.data["start"], event.data["size"]) == ("stdout", 4, 3)


async def test_a_repeat_adds_no_byte_and_no_event(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    await write(store, task, 0, b"one")
    await write(store, task, 0, b"one")
    assert await stored(store, task) == b"one"
    assert (await kinds(store, "a")).count("task.output") == 1


@pytest.mark.parametrize(("start", "data"), [(0, b"two"), (4, b"four")])
async def test_other_bytes_and_gaps_are_refused(store: Store, start: int, data: bytes) -> None:
    await put(store, "a")
    task = await claim_one(store)
    await write(store, task, 0, b"one")
    with pytest.raises(Conflict, match=r"differ|ends at 3"):
        await write(store, task, start, data)
    assert await stored(store, task) == b"one"
    assert (await kinds(store, "a")).count("task.output") == 1


async def test_the_middle_of_long_output_is_dropped(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    step = 4 * 32_768
    total = HEAD_BYTES + TAIL_BYTES + 2 * FOLD_BYTES
    for start in range(0, total, step):
        await write(store, task, start, bytes([start // step]) * step)
    first = await output_page(store, task, "stdout", size=MIB)
    rest = await output_page(store, task, "stdout", start=MIB, size=MIB)
    assert (first.end, first.gaps, rest.gaps) == (total, [(HEAD_BYTES, 2 * FOLD_BYTES)], [])
    assert len(first.data + rest.data) == HEAD_BYTES + TAIL_BYTES


async def test_totals_rise_and_attempts_add_up(store: Store, clock: VirtualClock) -> None:
    await put(store, "a")
    task = await claim_one(store)
    await report(store, task, Report(totals={"cost": 2.0, "pages": 1.0}))
    await report(store, task, Report(totals={"cost": 1.0}))
    event = (await read_all(store))[-1]
    assert (event.kind, event.data["totals"], event.fence) == ("task.metrics", {"cost": 1.0}, 1)
    clock.set(clock.now() + 9.0)
    await store.sweep()
    clock.set(clock.now() + 99.0)
    again = await claim_one(store)
    await report(store, again, Report(totals={"cost": 4.0}))
    assert await store.reads.metrics("a") == {"cost": 6.0, "pages": 1.0}


async def test_a_run_that_lost_its_task_adds_nothing(store: Store, clock: VirtualClock) -> None:
    await put(store, "a")
    task = await claim_one(store)
    clock.set(clock.now() + 9.0)
    await store.sweep()
    assert code(await write(store, task, 0, b"late")) == "lease-lost"
    assert code(await report(store, task, Report(totals={"cost": 1.0}))) == "lease-lost"
    assert (await stored(store, task), await store.reads.metrics("a")) == (b"", {})
    assert not {"task.output", "task.metrics"} & set(await kinds(store, "a"))


async def test_output_of_a_stuck_task_is_no_progress(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    await store.apply([Instruction("a", GetStuck("no progress"), fence=task.fence)])
    await write(store, task, 0, b"still here")
    assert (await get(store, "a")).status is Status.STUCK
    assert await stored(store, task) == b"still here"
