"""Output and named checkpoints of claims by name."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Instruction, NamedPoint, OutputPart
from holdfast.core.errors import NodeFenced, TooLarge
from holdfast.core.speaking import Voice
from holdfast.core.worker.wire import CHUNK_BYTES_MAX
from holdfast.errors import Conflict, InvalidInput
from holdfast.store.store import Store
from holdfast.sync.nodes.claim_reports import ClaimReports, Written
from holdfast.sync.nodes.node_task import ClaimRef
from holdfast.sync.worker import reads
from tests.conformance.sync.support import Plugin
from tests.conformance.tasks.helpers import get, read_all


class Run:
    """The claim of one task by a node."""

    def __init__(self, plugin: Plugin, task_id: str, fence: int) -> None:
        self.plugin = plugin
        self.task_id = task_id
        self.claim = ClaimRef(fence=fence)
        self.reports = ClaimReports(plugin.store)

    async def write(self, start: int, data: bytes, stream: str = "stdout", **other: Any) -> Written:
        claim = ClaimRef(**other) if other else self.claim
        part = OutputPart(stream, start, data)
        return await self.reports.output(self.plugin.voice, self.task_id, claim, part)

    async def point(self, id: str, data: object = None, type: str = "plan") -> Written:
        point = NamedPoint(id, type, "note")
        return await self.reports.checkpoint(
            self.plugin.voice, self.task_id, self.claim, point, data
        )

    async def stored(self, stream: str = "stdout") -> bytes:
        task = await get(self.plugin.store, self.task_id)
        return (
            await reads.output_page(
                self.plugin.store, task, stream, fence=self.claim.fence, start=0, size=1_000_000
            )
        ).data


async def started(plugin: Plugin, name: str = "task-1", **fields: Any) -> Run:
    await plugin.create(name)
    locked = await plugin.claim(name, **fields)
    return Run(plugin, locked.task.task_id, locked.task.fence)


@pytest.fixture
async def a(store: Store) -> Plugin:
    return await Plugin(store, "plugin-a").start()


async def test_output_is_appended_by_offset(store: Store, a: Plugin) -> None:
    run = await started(a)
    assert (await run.write(0, b"one ")).end == 4
    assert (await run.write(4, b"two")).end == 7
    assert (await run.write(0, b"E", "stderr")).end == 1
    again = await run.write(4, b"two")
    assert (again.is_duplicate, again.end) == (True, 7)
    longer = await run.write(4, b"two three")
    assert (longer.is_duplicate, longer.end) == (False, 13)
    assert await run.stored() == b"one two three"
    assert await run.stored("stderr") == b"E"
    events = [e for e in await read_all(store) if e.kind == "task.output"]
    where = [(e.data["stream"], e.data["start"], e.data["size"], e.data["node"]) for e in events]
    assert where == [
        ("stdout", 0, 4, "plugin-a"),
        ("stdout", 4, 3, "plugin-a"),
        ("stderr", 0, 1, "plugin-a"),
        ("stdout", 7, 6, "plugin-a"),
    ]


async def test_output_that_does_not_follow_is_refused(store: Store, a: Plugin) -> None:
    run = await started(a)
    await run.write(0, b"abc")
    gap, other = await run.write(5, b"x"), await run.write(1, b"xyz")
    assert (gap.end, other.end) == (3, 3)
    assert gap.refused is not None
    assert other.refused is not None
    assert await run.stored() == b"abc"


async def test_a_checkpoint_is_added_once(store: Store, a: Plugin) -> None:
    run = await started(a)
    assert not (await run.point("ckp_1", {"step": 1})).is_duplicate
    assert (await run.point("ckp_1", {"step": 1})).is_duplicate
    await run.point("ckp_2", {"step": 1}, type="same data, other name")
    rows = await reads.checkpoints(store, run.task_id)
    assert [row.id for row in rows] == ["ckp_1", "ckp_2"]
    task = await get(store, run.task_id)
    assert (task.checkpoint, task.version) == ({"step": 1}, 2)
    created = [
        e.data["checkpoint_id"] for e in await read_all(store) if e.kind == "checkpoint.created"
    ]
    assert created == ["ckp_1", "ckp_2"]
    other = await started(a, "task-2")
    with pytest.raises(Conflict, match="another task"):
        await other.point("ckp_1")


async def test_only_the_holder_writes(store: Store, a: Plugin, clock: VirtualClock) -> None:
    run = await started(a, lease_seconds=5.0)
    await run.write(0, b"kept")
    await run.point("ckp_1", 1)
    version = (await get(store, run.task_id)).version
    b = await Plugin(store, "plugin-b").start()
    stranger = Run(b, run.task_id, run.claim.fence or 0)
    assert (await stranger.write(4, b"no")).lost == "reclaimed"
    assert (await stranger.write(0, b"kept")).lost == "reclaimed"
    assert (await run.write(4, b"no", fence=99)).lost is not None
    assert (await run.write(4, b"no", claim_id="other")).lost is not None
    clock.set(clock.now() + 6)
    # What is stored is known after the end, so that a lost answer is repeated in peace.
    assert (await run.write(0, b"kept")).is_duplicate
    assert (await run.point("ckp_1", 1)).is_duplicate
    assert (await run.write(4, b"late")).lost == "expired"
    assert (await run.point("ckp_2", 2)).lost == "expired"
    assert await run.stored() == b"kept"
    task = await get(store, run.task_id)
    assert task.version > version, "the lease that had ended was judged here"
    assert task.checkpoint == 1


async def test_an_operator_ends_the_writing(store: Store, a: Plugin) -> None:
    run = await started(a)
    await store.apply([Instruction(run.task_id, Abort("user:ann", "stop"))])
    assert (await run.write(0, b"x")).lost == "aborted"
    assert (await run.point("ckp_1")).lost == "aborted"


async def test_wrong_reports(store: Store, a: Plugin) -> None:
    run = await started(a)
    with pytest.raises(InvalidInput):
        await run.write(0, b"x", "none")
    with pytest.raises(InvalidInput):
        await run.write(-1, b"x")
    with pytest.raises(TooLarge):
        await run.write(0, b"x" * (CHUNK_BYTES_MAX + 1))
    for type in ("auto", "decision", " ", "x" * 201):
        with pytest.raises(InvalidInput):
            await run.point("ckp_1", type=type)
    with pytest.raises(InvalidInput):
        await run.point("")
    part = OutputPart("stdout", 0, b"x")
    with pytest.raises(NodeFenced):
        await run.reports.output(Voice("plugin-a", 0), run.task_id, run.claim, part)
    assert await run.stored() == b""


async def test_a_node_that_fences_names_the_fence(store: Store) -> None:
    run = await started(await Plugin(store, "plugin-f").start(capabilities=("fence",)))
    with pytest.raises(InvalidInput, match="fence"):
        await run.write(0, b"x", claim_id="c")
    assert (await run.write(0, b"x")).end == 1
