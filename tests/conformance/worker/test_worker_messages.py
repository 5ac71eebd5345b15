"""Messages of workers on every store: applied once, in order, in one transaction with their receiver."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Instruction
from holdfast.core.task import Status
from holdfast.core.worker.protocol import Reception
from holdfast.core.worker.wire import (
    CHUNK_BYTES_MAX,
    WINDOW_FRAMES_MAX,
    CheckpointChange,
    DecisionAsk,
    FailureReport,
    MetricsChange,
    OutputChunk,
    TaskChange,
)
from holdfast.engine import meters
from holdfast.metrics import Metrics
from holdfast.store.script import call, one as one_call
from holdfast.store.store import Store
from holdfast.sync.worker.figures import FAMILIES
from holdfast.sync.worker.receivers import Start
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.conformance.tasks.helpers import after, put
from tests.conformance.worker.worker_support import (
    Worker,
    kinds_of,
    one,
    output_of,
)


async def running(store: Store, sync: WorkerSync, task_id: str = "t") -> Worker:
    """A worker that runs one task under fence 1."""
    await put(store, task_id)
    worker = await Worker(sync).start()
    assert [task.id for task in await worker.claim(claim_id=f"claim-{task_id}")] == [task_id]
    return worker


async def test_a_result_is_applied_with_its_receiver(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    ack = await worker.send(TaskChange(task_id="t", fence=1, status="completed", result_json="7"))
    assert (ack.accepted, ack.sequence, ack.refused) == (True, 1, ())
    task = await one(store, "t")
    assert (task.status, task.result) == (Status.COMPLETED, 7)


async def test_a_repeat_after_a_lost_answer_is_acknowledged_and_not_applied(
    store: Store, sync: WorkerSync
) -> None:
    """The gateway stops between the commit and the acknowledgement; another one gets the repeat."""
    worker = await running(store, sync)
    message = worker.message(
        OutputChunk(task_id="t", fence=1, data=b"one"),
        MetricsChange(task_id="t", fence=1, tokens_used=5),
        TaskChange(task_id="t", fence=1, progress=0.5),
    )
    await sync.apply([message])
    before = await kinds_of(store, "t")
    again = (await sync.apply([message]))[0]
    assert again.outcome is Reception.DUPLICATE
    assert (again.ack.accepted, again.ack.sequence) == (True, 1)
    assert await kinds_of(store, "t") == before
    assert await output_of(store, "t", 1) == b"one"


async def test_a_repeat_gets_the_refusals_of_the_first_answer(
    store: Store, sync: WorkerSync
) -> None:
    """A worker that took the repeat for a success would tell its handler that the report was written."""
    worker = await running(store, sync)
    stale = TaskChange(task_id="t", fence=7, progress=0.1)
    sound = TaskChange(task_id="t", fence=1, progress=0.2)
    first = await worker.send(sound, stale)
    later = await worker.send(sound)
    again = await worker.send(sound, stale, sequence=1)
    (refused,) = first.refused
    assert (refused.sequence, refused.what, refused.index) == (1, "task", 1)
    assert again.refused == (replace(refused, state_json=""),)
    assert (again.accepted, again.sequence, later.refused) == (True, 1, ())


async def test_refusals_are_kept_for_the_largest_window(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    stale = TaskChange(task_id="t", fence=7, progress=0.1)
    await sync.apply([worker.message(stale) for _ in range(WINDOW_FRAMES_MAX)])
    await worker.send(stale)
    last = worker.sequence
    answers = [(await worker.send(stale, sequence=n)).refused for n in (1, 2, last)]
    assert [len(refused) for refused in answers] == [0, 1, 1]


async def test_a_gap_names_the_message_to_resume_from(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    ack = await worker.send(TaskChange(task_id="t", fence=1, status="completed"), sequence=2)
    assert (ack.accepted, ack.reason, ack.expected_sequence) == (False, "gap_detected", 1)
    assert (await one(store, "t")).status is Status.RUNNING


async def test_an_older_incarnation_is_fenced(store: Store, sync: WorkerSync) -> None:
    old = await running(store, sync)
    new = await Worker(sync, boot="boot-2").start(("t", 1))
    assert new.incarnation == old.incarnation + 1
    ack = await old.send(TaskChange(task_id="t", fence=1, status="completed"))
    assert (ack.accepted, ack.reason) == (False, "node_fenced")
    assert (await one(store, "t")).status is Status.RUNNING
    assert (await new.send(TaskChange(task_id="t", fence=1, status="completed"))).accepted


async def test_a_worker_that_never_said_hello_is_unknown(store: Store, sync: WorkerSync) -> None:
    ack = await Worker(sync).send(TaskChange(task_id="t", fence=1, status="completed"))
    assert (ack.accepted, ack.reason) == (False, "unknown_node")


async def test_a_repeated_hello_of_one_start_gets_the_same_incarnation(sync: WorkerSync) -> None:
    first = await sync.hello(Start("w1", 0, "boot"))
    again = await sync.hello(Start("w1", 0, "boot"))
    assert first.receiver == again.receiver
    other = await sync.hello(Start("w1", 0, "another"))
    assert other.receiver is not None
    assert other.receiver.incarnation == 2
    stale = await sync.hello(Start("w1", 1, "boot"))
    assert stale.refused is Reception.FENCED
    assert (await sync.hello(Start("w1", 3, "x"))).refused is Reception.UNKNOWN


async def test_messages_of_several_workers_share_a_transaction(
    store: Store, sync: WorkerSync
) -> None:
    first = await running(store, sync, "a")
    await put(store, "b")
    second = await Worker(sync, "w2").start()
    await second.claim(claim_id="other")
    head = (await store.feed.head()).offset
    answers = await sync.apply(
        [
            first.message(TaskChange(task_id="a", fence=1, progress=0.5)),
            second.message(TaskChange(task_id="b", fence=1, status="completed")),
            first.message(TaskChange(task_id="a", fence=1, status="completed")),
            second.message(sequence=9),
        ]
    )
    assert [answer.outcome for answer in answers] == [
        *[Reception.APPLY] * 3,
        Reception.GAP,
    ]
    assert answers[2].ack.sequence == 2
    assert {(await one(store, name)).status for name in "ab"} == {Status.COMPLETED}
    assert (await store.feed.head()).offset == head + 3, "one event each"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (TaskChange(task_id="t", status="running", progress=0.1), Status.RUNNING),
        (TaskChange(task_id="t", status="completed"), Status.COMPLETED),
        (TaskChange(task_id="t", status="failed"), Status.QUEUED),
        (
            TaskChange(task_id="t", status="failed", failure=FailureReport(final=True)),
            Status.FAILED,
        ),
        (TaskChange(task_id="t", status="queued", delay_ms=500), Status.QUEUED),
        (TaskChange(task_id="t", status="queued", reason="stops"), Status.QUEUED),
        (TaskChange(task_id="t", status="paused", reason="lunch"), Status.PAUSED),
        (TaskChange(task_id="t", status="stuck", reason="no idea"), Status.STUCK),
        (TaskChange(task_id="t", status="running"), Status.RUNNING),
        (TaskChange(task_id="t", status="aborted", reason="not needed"), Status.ABORTED),
    ],
)
async def test_each_status_is_a_command(
    store: Store, sync: WorkerSync, change: TaskChange, status: Status
) -> None:
    """Without a fence, the one of the claim that the node holds is implied."""
    worker = await running(store, sync)
    ack = await worker.send(change)
    assert ack.refused == ()
    assert (await one(store, "t")).status is status


async def test_a_stuck_worker_that_says_that_it_runs_goes_on(
    store: Store, sync: WorkerSync
) -> None:
    worker = await running(store, sync)
    steps = (("stuck", Status.STUCK), (None, Status.STUCK), ("running", Status.RUNNING))
    for said, status in steps:
        assert (await worker.send(TaskChange(task_id="t", status=said))).refused == ()
        assert (await one(store, "t")).status is status


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (TaskChange(task_id="t", fence=9, status="completed"), "lease-lost"),
        (TaskChange(task_id="t", fence=9, status="paused"), "lease-lost"),
        (TaskChange(task_id="t", fence=9, progress=0.5), "lease-lost"),
        (TaskChange(task_id="none", fence=1, status="completed"), "not-found"),
        (TaskChange(task_id="t", fence=1, status="flying"), "invalid-input"),
        (TaskChange(task_id="t", fence=1, progress=1.5), "invalid-input"),
        (TaskChange(task_id="t", fence=1, note="a\0b"), "invalid-input"),
        (TaskChange(task_id="t", fence=1, status="completed", result_json="{"), "invalid-input"),
        (
            TaskChange(task_id="t", fence=1, status="completed", result_json="[" * 40 + "]" * 40),
            "invalid-input",
        ),
        (
            TaskChange(
                task_id="t", fence=1, status="failed", failure=FailureReport(kind="dependency")
            ),
            "invalid-input",
        ),
        (OutputChunk(task_id="t", fence=9, data=b"x"), "lease-lost"),
        (OutputChunk(task_id="t", fence=1, stream="tape", data=b"x"), "invalid-input"),
        (OutputChunk(task_id="t", fence=1, start=1, data=b"x"), "output-gap"),
        (OutputChunk(task_id="t", fence=1, data=b"x" * (CHUNK_BYTES_MAX + 1)), "too-large"),
        (MetricsChange(task_id="t", fence=1, cost=float("nan")), "invalid-input"),
        (MetricsChange(task_id="t", fence=1, other={"x": -1.0}), "invalid-input"),
        (CheckpointChange(task_id="t", fence=1), "invalid-input"),
        (
            CheckpointChange(task_id="t", fence=1, checkpoint_id="c", decision=DecisionAsk()),
            "invalid-input",
        ),
    ],
)
async def test_a_refused_change_does_not_block_what_follows(
    store: Store, sync: WorkerSync, change: object, code: str
) -> None:
    worker = await running(store, sync)
    ack = await worker.send(change, OutputChunk(task_id="t", fence=1, stream="log", data=b"ok"))
    assert (ack.accepted, ack.sequence) == (True, 1)
    assert [refused.code for refused in ack.refused] == [code]
    if code != "not-found":
        state = json.loads(ack.refused[0].state_json)
        assert (state["status"], state["fence"]) == ("running", 1)
    assert await output_of(store, "t", 1, "log") == b"ok"
    assert (await worker.send(TaskChange(task_id="t", fence=1, status="completed"))).refused == ()


async def test_another_node_cannot_write_to_a_run(store: Store, sync: WorkerSync) -> None:
    """A fence is a small number that another worker can guess; it is not a credential."""
    await running(store, sync)
    other = await Worker(sync, "w2").start()
    ack = await other.send(
        TaskChange(task_id="t", fence=1, status="completed"),
        OutputChunk(task_id="t", fence=1, data=b"x"),
        TaskChange(task_id="t", status="completed"),
    )
    assert {refused.code for refused in ack.refused} == {"not-runner"}
    assert (await one(store, "t")).status is Status.RUNNING


async def test_a_task_of_another_project_does_not_exist(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    message = worker.message(TaskChange(task_id="t", fence=1, status="completed"))
    foreign = type(message)(
        message.node, message.incarnation, message.sequence, message.changes, "other"
    )
    ack = (await sync.apply([foreign]))[0].ack
    assert [(refused.code, refused.state_json) for refused in ack.refused] == [("not-found", "")]


async def test_a_late_result_is_kept_as_evidence(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    await store.apply([Instruction("t", Abort("user:ann", "wrong"))])
    ack = await worker.send(TaskChange(task_id="t", fence=1, status="completed", result_json="1"))
    assert [refused.code for refused in ack.refused] == ["lease-lost"]
    assert json.loads(ack.refused[0].state_json)["status"] == "aborted"
    assert (await kinds_of(store, "t"))[-1] == "task.late"


async def test_a_result_that_a_new_incarnation_repeats_is_a_success(
    store: Store, sync: WorkerSync
) -> None:
    worker = await running(store, sync)
    done = TaskChange(task_id="t", fence=1, status="completed", result_json="1")
    await worker.send(done)
    again = await Worker(sync, boot="boot-2").start()
    assert (await again.send(done)).refused == ()


async def test_an_end_settles_dependents(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    await put(store, "child", depends_on=after("t"))
    await worker.send(TaskChange(task_id="t", fence=1, status="completed"))
    assert (await one(store, "child")).status is Status.QUEUED


async def test_what_is_not_applied_is_counted(store: Store, clock: VirtualClock) -> None:
    metrics = Metrics(FAMILIES, meters.FAMILIES)
    sync = WorkerSync(store, clock, gather_seconds=0.0, meter=metrics)
    worker = await running(store, sync)
    await worker.send(OutputChunk(task_id="t", fence=1, data=b"a"))
    await worker.send(sequence=1)
    await worker.send(sequence=9)
    await worker.send(
        TaskChange(task_id="t", fence=7, progress=0.5), OutputChunk(task_id="t", fence=7)
    )
    worker.incarnation -= 1
    await worker.send(sequence=5)
    status = await store.read(lambda: one_call(call("holdfast.sync:read_tally", project="default")))
    assert dict(status) == {"duplicates": 1, "gaps": 1, "fenced": 3}
    text = metrics.render()
    for outcome in ("applied", "duplicate", "gap", "fenced", "refused"):
        assert f'holdfast_sync_messages_total{{outcome="{outcome}"}} 1' in text, text
    for what in ("task", "step", "worker"):
        assert f'holdfast_fencing_rejections_total{{what="{what}"}} 1' in text, text
