"""Outputs of jobs: equal ones once, and any part of a log with its gaps named."""

from __future__ import annotations

import hashlib

from hypothesis import given, strategies as st

from holdfast.core import codec
from holdfast.core.fleet.agents.run_output import StreamState
from holdfast.fleet.jobs.outputs import JobOutputs, page_of
from holdfast.fleet.jobs.reads import JobReads
from holdfast.store.script import call, call_rows, one
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench

STATE = "written:UPDATE holdfast_execution SET output_json = :output WHERE task_id = :task_id"


async def wrote(fleet: FleetBench, task_id: str, data: bytes) -> None:
    """An agent has sent all output of a run."""
    digest = hashlib.sha256(data).hexdigest()
    row = (digest, len(data), data.hex(), 1)
    await fleet.store.run(lambda *_: one(call_rows("holdfast.fleet.agents:add_blobs", [row])))
    state = {"bytes": len(data), "kept": len(data), "sha256": digest, "complete": True}
    output = codec.dumps({"stdout": state})
    await fleet.store.run(lambda *_: one(call(STATE, output=output, task_id=task_id)))


async def test_equal_outputs_are_shown_once(store: Store) -> None:
    fleet = FleetBench(store)
    job = (await fleet.create(await fleet.add_hosts(5))).job
    executions = await fleet.executions(job.id)
    for execution in executions[:3]:
        await wrote(fleet, execution.task_id, b"ok\n")
    await wrote(fleet, executions[3].task_id, b"other\n")
    folded = await JobOutputs(store).folded(job)
    assert [(g.count, g.hosts, g.sample) for g in folded.groups] == [
        (3, "web-[001-003]", "ok\n"),
        (1, "web-004", "other\n"),
    ]
    assert (folded.missing, folded.differing) == ("web-005", 1)


async def test_a_log_is_read_in_parts(store: Store) -> None:
    fleet = FleetBench(store)
    job = (await fleet.create(await fleet.add_hosts(1))).job
    [execution] = await fleet.executions(job.id)
    outputs, reads = JobOutputs(store), JobReads(store, fleet.rules)
    _, view = await reads.execution(execution.task_id)
    assert (await outputs.log(view)).data == b""
    await wrote(fleet, execution.task_id, b"0123456789")
    _, view = await reads.execution(execution.task_id)
    page = await outputs.log(view, start=2, limit_bytes=3)
    assert (page.data, page.next, page.end) == (b"234", 5, 10)
    assert (await outputs.log(view, start=10)).data == b""


@given(
    data=st.binary(max_size=60),
    gaps=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=3),
    start=st.integers(0, 130),
    size=st.integers(1, 130),
)
def test_a_page_has_the_bytes_of_its_range_without_the_gaps(
    data: bytes, gaps: list[tuple[int, int]], start: int, size: int
) -> None:
    """Against a stream that is written out, with a mark for each byte that is missing."""
    stream: list[int | None] = []
    placed: list[tuple[int, int]] = []
    rest = list(data)
    for at, length in gaps:
        take = rest[: at % (len(rest) + 1)]
        rest = rest[len(take) :]
        stream += take
        placed.append((len(stream), length))
        stream += [None] * length
    stream += rest
    state = StreamState(bytes=len(stream), kept=len(data), sha256="x", gaps=placed)
    page = page_of(state, data, "stdout", 1, start=start, size=size)
    wanted = stream[start : page.next]
    assert page.data == bytes(byte for byte in wanted if byte is not None)
    assert sum(length for _, length in page.gaps) == wanted.count(None)
    is_end = page.next == max(start, len(stream))
    assert len(page.data) == size or (is_end and len(page.data) < size)


def test_a_log_whose_bytes_are_gone_is_a_gap() -> None:
    """Another run of the execution has ended, or the job was forgotten, between two reads."""
    state = StreamState(bytes=100, kept=10, sha256="x", gaps=[(5, 90)])
    page = page_of(state, b"", "stdout", 1, start=0, size=10)
    assert (page.data, page.gaps, page.next) == (b"", [(0, 100)], 100)
