"""What running tasks of workers add to: output, metrics, checkpoints and questions."""

from __future__ import annotations

import json
from functools import partial

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.decision import Choice
from holdfast.core.output import HEAD_BYTES, TAIL_BYTES
from holdfast.core.task import Status
from holdfast.core.worker.wire import (
    CHUNK_BYTES_MAX,
    CheckpointChange,
    DecisionAsk,
    MetricsChange,
    OutputChunk,
    TaskChange,
)
from holdfast.store.scripts import retention
from holdfast.store.scripts.checkpoints import CHECKPOINTS_MAX
from holdfast.store.store import Store
from holdfast.sync.worker import reads
from holdfast.sync.worker.decisions import answers_json, ask_decision
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.conformance.tasks.helpers import put
from tests.conformance.worker.test_worker_messages import running
from tests.conformance.worker.worker_support import (
    kinds_of,
    one,
    output_of,
)


async def test_progress_keeps_the_fields_that_are_absent(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    await worker.send(TaskChange(task_id="t", fence=1, progress=0.25, phase="edit", iteration=3))
    await worker.send(TaskChange(task_id="t", fence=1, progress=0.5, note="half"))
    assert (await one(store, "t")).progress == {
        "done": 0.5,
        "phase": "edit",
        "iteration": 3,
        "note": "half",
    }


async def test_output_is_appended_by_offset(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    ack = await worker.send(OutputChunk(task_id="t", fence=1, data=b"abcd"))
    assert ack.output_next == {"t/1/stdout": 4}
    # A repeat, an overlap, and both in one message with what follows.
    await worker.send(OutputChunk(task_id="t", fence=1, data=b"abcd"))
    ack = await worker.send(
        OutputChunk(task_id="t", fence=1, start=2, data=b"cdef"),
        OutputChunk(task_id="t", fence=1, start=4, data=b"efgh\0\xff"),
        OutputChunk(task_id="t", fence=1, start=None, data=b"!"),
    )
    assert ack.refused == ()
    assert await output_of(store, "t", 1) == b"abcdefgh\0\xff!"


async def test_output_that_differs_is_refused(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    await worker.send(OutputChunk(task_id="t", fence=1, data=b"abcd"))
    ack = await worker.send(OutputChunk(task_id="t", fence=1, start=2, data=b"cX"))
    assert [refused.code for refused in ack.refused] == ["output-mismatch"]
    ack = await worker.send(OutputChunk(task_id="t", fence=1, start=7, data=b"h"))
    assert [refused.code for refused in ack.refused] == ["output-gap"]
    assert ack.output_next == {"t/1/stdout": 4}
    assert await output_of(store, "t", 1) == b"abcd"


async def test_a_long_stream_keeps_its_head_and_its_tail(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    chunk, end = 100_000, 0
    whole = b""
    for n in range(25):
        data = bytes([65 + n]) * chunk
        await worker.send(OutputChunk(task_id="t", fence=1, start=end, data=data))
        end, whole = end + chunk, whole + data
    stored = await output_of(store, "t", 1)
    assert len(stored) == len(whole)
    assert stored[:HEAD_BYTES] == whole[:HEAD_BYTES]
    assert stored[-TAIL_BYTES:] == whole[-TAIL_BYTES:]
    rows = await reads.output(store, "t", 1, "stdout", start=0, size=4 * reads.PAGE_BYTES)
    folded = [piece for piece in rows if piece.data is None]
    assert len(folded) == 1
    kept = end - folded[0].size
    assert kept <= HEAD_BYTES + TAIL_BYTES + 2 * CHUNK_BYTES_MAX
    ack = await worker.send(OutputChunk(task_id="t", fence=1, start=end, data=b"more"))
    assert ack.output_next == {"t/1/stdout": end + 4}


async def test_metrics_are_totals_that_only_rise(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    await worker.send(
        MetricsChange(task_id="t", fence=1, tokens_used=100, cost=0.5),
        MetricsChange(task_id="t", fence=1, tokens_used=90, other={"files": 3}),
    )
    await worker.send(MetricsChange(task_id="t", fence=1, tokens_used=40))
    assert await store.reads.metrics("t") == {"tokens_used": 100, "cost": 0.5, "files": 3}
    await worker.send(TaskChange(task_id="t", fence=1, status="queued"))
    task = (await worker.claim(claim_id="second"))[0]
    await worker.send(MetricsChange(task_id="t", fence=task.fence, tokens_used=7))
    assert (await store.reads.metrics("t"))["tokens_used"] == 107


async def test_checkpoints_are_numbered_and_bounded(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    for n in range(CHECKPOINTS_MAX + 3):
        change = CheckpointChange(
            task_id="t", fence=1, checkpoint_id=f"ckp-{n}", type="plan", data_json=f'{{"n":{n}}}'
        )
        ack = await worker.send(change, change)
        assert ack.refused == ()
    rows = await reads.checkpoints(store, "t")
    assert [row.nth for row in rows] == [*range(4, CHECKPOINTS_MAX + 4)]
    assert (await one(store, "t")).checkpoint == {"n": CHECKPOINTS_MAX + 2}
    assert (await kinds_of(store, "t")).count("checkpoint.created") == CHECKPOINTS_MAX + 3


async def test_a_checkpoint_id_belongs_to_one_task(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync, "a")
    await put(store, "b")
    await worker.claim(claim_id="second")
    await worker.send(CheckpointChange(task_id="a", fence=1, checkpoint_id="c"))
    ack = await worker.send(CheckpointChange(task_id="b", fence=1, checkpoint_id="c"))
    assert [refused.code for refused in ack.refused] == ["conflict"]


async def test_output_is_stored_before_the_end_of_its_run(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    ack = await worker.send(
        TaskChange(task_id="t", fence=1, status="completed"),
        OutputChunk(task_id="t", fence=1, data=b"last words"),
        CheckpointChange(task_id="t", fence=1, checkpoint_id="c"),
        MetricsChange(task_id="t", fence=1, tokens_used=1),
    )
    assert ack.refused == ()
    assert await output_of(store, "t", 1) == b"last words"
    assert (await one(store, "t")).status is Status.COMPLETED


async def test_a_question_without_a_deadline_gets_the_one_of_the_gateway(
    store: Store, clock: VirtualClock
) -> None:
    asks = partial(ask_decision, deadline_seconds=90.0)
    worker = await running(store, WorkerSync(store, clock, gather_seconds=0.0, ask_decision=asks))
    asked = DecisionAsk(key="go", question="Go?")
    await worker.send(CheckpointChange(task_id="t", fence=1, checkpoint_id="c", decision=asked))
    decision = await store.decisions.get("c")
    assert decision is not None
    assert decision.deadline_at == decision.created_at + 90.0


async def test_a_question_without_data_keeps_what_the_task_has_saved(
    store: Store, sync: WorkerSync
) -> None:
    worker = await running(store, sync)
    asked = DecisionAsk(key="go", question="Go?", options=("yes", "no"))
    await worker.send(
        CheckpointChange(task_id="t", fence=1, checkpoint_id="a", data_json="[3]"),
        CheckpointChange(task_id="t", fence=1, checkpoint_id="c", decision=asked),
    )
    point = await store.decisions.checkpoint("c")
    assert (point and point.data, (await one(store, "t")).checkpoint) == ([3], [3])


async def test_a_checkpoint_with_a_question_pauses_the_task(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    asked = DecisionAsk(key="go", question="Go?", options=("yes", "no"), deadline_ms=60_000)
    ack = await worker.send(
        CheckpointChange(task_id="t", fence=1, checkpoint_id="c", data_json="1", decision=asked)
    )
    assert ack.refused == ()
    task = (await store.reads.get(["t"]))["t"]
    assert (task.status, task.gate) == (Status.PAUSED, "!decision:c")
    decision = await store.decisions.get("c")
    assert decision is not None
    assert (decision.key, decision.options) == ("go", ("yes", "no"))
    await store.decisions.decide("c", Choice(choice_json='"yes"', actor="user:ann"))
    answers = json.loads(answers_json(await store.decisions.of_tasks(["t"])))
    assert answers["go"]["choice"] == "yes"


async def test_pruning_a_task_removes_what_it_added(
    store: Store, sync: WorkerSync, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await running(store, sync)
    for start in range(0, 9, 3):  # one row each
        await worker.send(OutputChunk(task_id="t", fence=1, start=start, data=b"abc"))
    await worker.send(
        MetricsChange(task_id="t", fence=1, tokens_used=7),
        CheckpointChange(task_id="t", fence=1, checkpoint_id="c"),
        TaskChange(task_id="t", fence=1, status="completed"),
    )
    later = clock.now() + 100.0
    clock.set(later)
    monkeypatch.setattr(retention, "OUTPUT_ROWS", 2)
    await store.prune(before=later - 200.0, dead_before=0.0, feed_before=0.0)
    assert await output_of(store, "t", 1) == b"abcabcabc"  # it is not old enough
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    assert await store.reads.get(["t"]) == {}
    assert await output_of(store, "t", 1) == b""
    assert await store.reads.metrics("t") == {}
    assert await reads.checkpoints(store, "t") == []


async def test_output_is_read_in_pages(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    whole = bytes(range(256)) * 10
    for start in range(0, len(whole), 1000):
        await worker.send(
            OutputChunk(task_id="t", fence=1, start=start, data=whole[start : start + 1000])
        )
    task = await one(store, "t")
    data, start = b"", 0
    while True:
        page = await reads.output_page(store, task, "stdout", start=start, size=999)
        assert (page.fence, page.start, page.end) == (1, start, len(whole))
        assert (page.complete, page.gaps) == (False, [])
        if not page.data:
            break
        data, start = data + page.data, page.next
    assert data == whole
    await worker.send(TaskChange(task_id="t", fence=1, status="completed"))
    page = await reads.output_page(store, await one(store, "t"), "stdout", fence=1, start=5000)
    assert (page.data, page.next, page.complete) == (b"", 5000, True)
    page = await reads.output_page(store, await one(store, "t"), "stderr")
    assert (page.data, page.next, page.end) == (b"", 0, 0)


async def test_a_page_names_what_was_folded(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    chunk, end = 200_000, 0
    for _ in range(12):
        await worker.send(OutputChunk(task_id="t", fence=1, start=end, data=b"x" * chunk))
        end += chunk
    task, data, start, folded = await one(store, "t"), 0, 0, 0
    while start < end:
        page = await reads.output_page(store, task, "stdout", start=start, size=300_000)
        data, start = data + len(page.data), page.next
        folded += sum(size for _, size in page.gaps)
    assert folded > 0
    assert data + folded == end
