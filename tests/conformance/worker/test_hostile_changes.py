"""Hostile changes of workers on every store: refused one by one, and the stream goes on."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from holdfast.core.worker.wire import (
    CheckpointChange,
    DecisionAsk,
    FailureReport,
    MetricsChange,
    OutputChunk,
    Subtask,
    TaskChange,
)
from holdfast.store.store import Store
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.conformance.tasks.helpers import put
from tests.conformance.worker.worker_support import Worker, one, output_of

TEXTS = ("t", "", "a\0b", "\0", "x" * 5_000, "\x1b[31m", "!x", "\u2028", "{", "[" * 500 + "]" * 500)
NUMBERS = (0, 1, -1, 2**53, 2**63, 2**64, -(10**30), 10**400)
FLOATS = (0.0, -1.0, 1e308, float("inf"), float("nan"), 0.5)
STATUSES = (None, "running", "failed", "queued", "paused", "stuck", "nap", "a\0b")


def task_change(draw: Random) -> TaskChange:
    return TaskChange(
        task_id=draw.choice(TEXTS),
        fence=draw.choice(NUMBERS),
        status=draw.choice(STATUSES),
        progress=draw.choice((None, *FLOATS)),
        phase=draw.choice((None, *TEXTS)),
        iteration=draw.choice((None, *NUMBERS)),
        note=draw.choice((None, *TEXTS)),
        result_json=draw.choice((None, *TEXTS)),
        failure=draw.choice((None, FailureReport(message=draw.choice(TEXTS), kind="a\0b"))),
        delay_ms=draw.choice((None, *NUMBERS)),
        subtasks=(Subtask(id=draw.choice(TEXTS), done=draw.choice(FLOATS)),),
        reason=draw.choice((None, *TEXTS)),
    )


def output(draw: Random) -> OutputChunk:
    return OutputChunk(
        task_id=draw.choice(TEXTS),
        fence=draw.choice(NUMBERS),
        stream=draw.choice(("stderr", *TEXTS)),
        start=draw.choice((None, *NUMBERS)),
        data=draw.choice((b"", b"\0", b"x" * 300_000)),
    )


def checkpoint(draw: Random) -> CheckpointChange:
    asked = DecisionAsk(
        key=draw.choice(TEXTS),
        question=draw.choice(TEXTS),
        options=(draw.choice(TEXTS),),
        schema_json=draw.choice(TEXTS),
        default_json=draw.choice((None, *TEXTS)),
        deadline_ms=draw.choice(NUMBERS),
        assignees=(draw.choice(TEXTS),),
    )
    return CheckpointChange(
        task_id=draw.choice(TEXTS[2:]),
        fence=draw.choice(NUMBERS),
        checkpoint_id=draw.choice(TEXTS),
        type=draw.choice(TEXTS),
        note=draw.choice(TEXTS),
        data_json=draw.choice(TEXTS),
        decision=draw.choice((None, asked)),
    )


def metrics(draw: Random) -> MetricsChange:
    return MetricsChange(
        task_id=draw.choice(TEXTS),
        fence=draw.choice(NUMBERS),
        tokens_used=draw.choice(NUMBERS),
        cost=draw.choice(FLOATS),
        duration_ms=draw.choice(NUMBERS),
        other={draw.choice(TEXTS): draw.choice(FLOATS)},
    )


@pytest.mark.parametrize("seed", range(4))
async def test_a_hostile_change_never_blocks_what_follows(
    store: Store, sync: WorkerSync, seed: int
) -> None:
    """The good change of each message takes effect, and its sequence is acknowledged."""
    draw = Random(seed)
    worker = await running(store, sync)
    for n in range(40):
        make: Any = draw.choice((task_change, output, checkpoint, metrics))
        hostile = make(draw)
        if hostile.task_id == "t" and hostile.fence in (0, 1):
            continue  # it may be a change of the run that is meant
        good = OutputChunk(task_id="good", fence=1, start=None, data=b"%03d" % n)
        ack = await worker.send(hostile, good)
        assert (ack.accepted, ack.sequence) == (True, worker.sequence), hostile
        assert all(change.task_id != "good" for change in ack.refused)
        assert (await output_of(store, "good", 1)).endswith(b"%03d" % n), hostile
    assert (await one(store, "good")).fence == 1


@pytest.mark.parametrize(
    "hostile",
    [
        OutputChunk(task_id="t", fence=1, stream="a\0b", data=b"x"),
        OutputChunk(task_id="t", fence=1, start=-(10**30), data=b"x"),
        TaskChange(task_id="t\0", fence=1, status="completed"),
        TaskChange(task_id="t", fence=1, status="queued", delay_ms=10**400),
        CheckpointChange(task_id="t", fence=1, checkpoint_id="a\0b", data_json="1"),
        CheckpointChange(
            task_id="t",
            fence=1,
            checkpoint_id="c",
            decision=DecisionAsk(question="Go?", options=("yes",), deadline_ms=10**400),
        ),
        CheckpointChange(
            task_id="t",
            fence=1,
            checkpoint_id="c",
            decision=DecisionAsk(question="Go?", schema_json="[" * 900 + "]" * 900),
        ),
    ],
)
async def test_a_change_out_of_bounds_is_refused(
    store: Store, sync: WorkerSync, hostile: Any
) -> None:
    worker = await running(store, sync)
    ack = await worker.send(hostile)
    assert ack.accepted
    assert [change.code for change in ack.refused] == ["invalid-input"]
    assert (await worker.send(TaskChange(task_id="t", fence=1, status="completed"))).refused == ()


async def running(store: Store, sync: WorkerSync) -> Worker:
    """A worker that runs two tasks under fence 1."""
    await put(store, "t")
    await put(store, "good")
    worker = await Worker(sync).start()
    assert len(await worker.claim(slots=2, claim_id="claim")) == 2
    return worker
