"""Runs over many tasks: how they go on, stop and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core import bulk as rules, bulk_again
from holdfast.core.bulk import BATCH, BulkAction, BulkRun, BulkSpec, BulkState
from holdfast.core.bulk_canary import LOOK_SECONDS, looked
from holdfast.core.task import Priority, Status, Task
from holdfast.core.transition import HELD
from holdfast.errors import HoldfastError, IllegalTransition, InvalidInput


def run_of(total: int, **spec: Any) -> BulkRun:
    made = BulkSpec(action=BulkAction.ABORT, actor="user:ann", **spec)
    return BulkRun(id="op_1", spec=made, state=BulkState.RUNNING, total=total)


def judge(run: BulkRun, codes: Sequence[str | None], now: float = 1.0) -> BulkRun:
    """The run after a batch with these refusals."""
    batch = run.next_tasks([f"t{n}" for n in range(run.total)], len(codes))
    return rules.advance(run, batch, codes, now)


@given(st.lists(st.sampled_from([None, "not-found", "illegal-transition"]), min_size=1))
def test_each_task_is_judged_once(codes: list[str | None]) -> None:
    run, judged = run_of(len(codes)), 0
    while run.state is BulkState.RUNNING:
        batch = codes[run.position : run.position + run.batch]
        assert 0 < len(batch) <= BATCH
        judged += len(batch)
        run = judge(run, batch)
    assert (run.state, judged) == (BulkState.DONE, len(codes))
    assert (run.done, run.failed) == (codes.count(None), len(codes) - codes.count(None))
    assert sum(run.errors.values()) == run.failed


@given(
    count=st.integers(0, 30),
    absent=st.dictionaries(st.sampled_from(["not-found", "not-dead"]), st.integers(1, 5)),
    stop_at=st.integers(0, 30),
)
def test_what_was_left_out_counts_as_refused_and_stops_nothing(
    count: int, absent: dict[str, int], stop_at: int
) -> None:
    spec = run_of(0, canary=3, stop_on_fail_share=0.0).spec
    run, judged = rules.begun("op_1", spec, count, absent, None), list[str]()
    ids, left = [f"t{n}" for n in range(count)], sum(absent.values())
    while run.state is BulkState.RUNNING:
        if len(judged) >= stop_at:
            stop_at = count + 1
            run = rules.resumed(rules.stopped(run, "a pause", 1.0), 1.0)
        batch = run.next_tasks(ids, 4)
        judged += batch
        run = rules.advance(run, batch, [None] * len(batch), 1.0)
    assert (run.state, judged) == (BulkState.DONE, ids)
    assert (run.total, run.done, run.failed) == (count + left, count, left)
    assert run.errors == absent


@given(
    holds=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    size=st.integers(1, 7),
    aside_max=st.integers(1, 10),
)
def test_a_held_task_is_judged_later_and_once(holds: list[int], size: int, aside_max: int) -> None:
    """`holds`: how often each task is held when it is tried."""
    ids = [f"t{n}" for n in range(len(holds))]
    left, judged = dict(zip(ids, holds, strict=True)), []
    run = run_of(len(ids))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rules, "ASIDE_MAX", aside_max)
        while run.state is BulkState.RUNNING:
            batch = run.next_tasks(ids, size)
            codes = [HELD if left[task_id] else None for task_id in batch]
            judged += [task_id for task_id in batch if not left[task_id]]
            left.update((task_id, max(0, left[task_id] - 1)) for task_id in batch)
            run = rules.advance(run, batch, codes, 1.0)
            assert bool(run.detail) == bool(run.progress.aside)
    assert sorted(judged) == sorted(ids)
    assert (run.done, run.progress.aside, run.detail) == (len(ids), (), "")


def test_held_tasks_alone_are_tried_after_a_pause() -> None:
    run = judge(run_of(2), [HELD, None])
    assert (run.next_at, run.done, run.state) == (1.0, 1, BulkState.RUNNING)
    assert run.detail.startswith("1 task is held by another transaction")
    again = judge(run, [HELD])
    assert (again.next_at, again.progress.aside) == (1.0 + rules.HELD_SECONDS, ("t0",))


def test_a_refused_task_of_the_canary_stops_the_run() -> None:
    run = run_of(50, canary=2)
    assert run.batch == 2
    assert judge(run, [None, None]).batch == BATCH
    stopped = judge(run, [None, "not-found"])
    assert (stopped.state, stopped.detail) == (BulkState.STOPPED, rules.CANARY)
    again = rules.resumed(stopped, 2.0)
    assert (again.state, again.position) == (BulkState.RUNNING, 2)


def test_after_a_resume_the_canary_is_of_the_tasks_that_are_left() -> None:
    again = rules.resumed(judge(run_of(50, canary=2, rate_per_second=1), ["not-found"]), 2.0)
    assert again.state is BulkState.RUNNING
    halfway = judge(again, [None])
    assert (halfway.state, halfway.is_in_canary) == (BulkState.RUNNING, True)
    passed = judge(halfway, [None])
    assert judge(passed, ["not-found"]).state is BulkState.RUNNING
    assert judge(halfway, ["not-found"]).state is BulkState.STOPPED


def test_the_share_of_refusals_stops_the_run_after_enough_tasks() -> None:
    run = run_of(100, stop_on_fail_share=0.5)
    assert judge(run, ["gone"] * 9).state is BulkState.RUNNING
    assert judge(run, ["gone"] * 5 + [None] * 5).state is BulkState.RUNNING
    assert judge(run, ["gone"] * 6 + [None] * 4).state is BulkState.STOPPED


def test_after_a_resume_the_share_is_of_the_tasks_that_are_left() -> None:
    run = judge(run_of(100, stop_on_fail_share=0.5), ["gone"] * 20)
    again = rules.resumed(run, 2.0)
    assert judge(again, ["gone"] * 5 + [None] * 5).state is BulkState.RUNNING
    assert judge(again, ["gone"] * 6 + [None] * 4).state is BulkState.STOPPED


def test_a_rate_makes_smaller_batches_and_pauses() -> None:
    assert (run_of(9, rate_per_second=3).batch, run_of(9, rate_per_second=0.1).batch) == (3, 1)
    assert judge(run_of(9, rate_per_second=0.5), [None]).next_at == 1.0 + 2.0
    slow = judge(run_of(9, rate_per_second=0.01), [None])
    assert slow.next_at == 1.0 + 100.0
    assert rules.resumed(rules.stopped(slow, "x", 2.0), 3.0).next_at == 101.0


def test_what_has_ended_does_not_change() -> None:
    done = judge(run_of(1), [None])
    for change in (rules.resumed, lambda run, now: rules.stopped(run, "x", now)):
        with pytest.raises(IllegalTransition):
            change(done, 2.0)
    stopped = rules.stopped(run_of(1), "x", 1.0)
    assert rules.stopped(stopped, "y", 2.0) is stopped


@pytest.mark.parametrize(
    "spec",
    [
        {"rate_per_second": 0},
        {"rate_per_second": rules.RATE_LEAST / 2},
        {"canary": 0},
        {"stop_on_fail_share": 2},
        {"args": {"to_node": "n"}},
        {"action": BulkAction.REASSIGN},
    ],
)
def test_a_bad_run_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises((InvalidInput, HoldfastError)):
        BulkSpec(**{"action": BulkAction.ABORT, "actor": "a", **spec})


def ended(id: str, status: Status) -> Task:
    return Task(
        id=id, type="mail", queue="default", priority=Priority.NORMAL, status=status, payload_json="{}",
        metadata_json=None, options_json="{}", attempts=1, max_attempts=1, deaths=0, version=1, fence=1,
        created_at=1.0, updated_at=1.0, due_at=1.0,
    )  # fmt: skip


def test_the_rest_of_a_replay_waits_until_its_canary_has_ended() -> None:
    spec = BulkSpec(action=BulkAction.REPLAY, actor="user:ann", canary=2, rate_per_second=1)
    made = BulkRun(id="op_1", spec=spec, state=BulkState.RUNNING, total=9)
    half = judge(made, [None])
    assert not half.is_watching
    run = judge(half, [None])
    assert (run.is_watching, run.progress.watched) == (True, ("t0", "t1"))
    waits = looked(
        run, {"t0": ended("t0", Status.COMPLETED), "t1": ended("t1", Status.QUEUED)}, 5.0
    )
    assert (waits.is_watching, waits.next_at) == (True, 5.0 + LOOK_SECONDS)
    on = looked(waits, {}, 6.0)
    assert (on.is_watching, on.state, on.next_at, on.detail) == (False, BulkState.RUNNING, 6.0, "")
    assert not judge(on, [None]).is_watching
    again = looked(run, {"t1": ended("t1", Status.FAILED)}, 5.0)
    assert (again.state, again.detail) == (
        BulkState.STOPPED,
        "1 of 2 tasks of the canary failed again",
    )
    assert not rules.resumed(again, 6.0).is_watching
    assert judge(replace(made, total=1), [None]).state is BulkState.DONE


def replay_of(total: int, judged: int, **fields: Any) -> BulkRun:
    spec = BulkSpec(action=BulkAction.REPLAY, actor="user:ann", stop_on_fail_share=0.2)
    return BulkRun(
        id="op_1", spec=spec, state=BulkState.RUNNING, total=total, done=judged, **fields
    )


@given(judged=st.integers(10, 2_000), dead=st.integers(0, 1_000), failed=st.integers(0, 50))
def test_a_replay_stops_when_too_many_fail_again(judged: int, dead: int, failed: int) -> None:
    run = replay_of(3_000, judged, failed=failed)
    looked = min(run.judged, bulk_again.LOOK_MAX)
    dead = min(dead, looked - min(failed, looked))
    after = bulk_again.counted(run, looked, dead, 5.0)
    estimate = dead * run.judged / looked
    if abs(failed + estimate - 0.2 * run.judged) > 1:
        assert (after.state is BulkState.STOPPED) is (failed + estimate > 0.2 * run.judged)
    assert ("failed again" in after.detail) is (after.state is BulkState.STOPPED)
    assert (after.done, after.failed, after.version) == (run.done, run.failed, run.version + 1)
    assert not bulk_again.is_due(after, 5.0)
    if after.state is BulkState.STOPPED:
        assert rules.resumed(after, 6.0).progress.again == 0, "they count once"


def test_the_tasks_of_a_look_are_the_latest_that_were_judged() -> None:
    ids = [f"t{n}" for n in range(3_000)]
    progress = rules.BulkProgress(aside=("t1990", "t7"), judged_before=100)
    run = replay_of(3_000, 1_998, progress=progress)
    looked = bulk_again.judged_tasks(run, ids)
    assert (len(looked), looked[-1], "t1990" in looked) == (bulk_again.LOOK_MAX, "t1999", False)
    few = replay_of(3_000, 112, progress=rules.BulkProgress(judged_before=100))
    assert bulk_again.judged_tasks(few, ids) == ids[100:112]


@pytest.mark.parametrize(
    ("change", "due"),
    [
        ({}, True),
        ({"done": 9}, False),
        ({"progress": rules.BulkProgress(looked_at=4.5)}, False),
        ({"progress": rules.BulkProgress(watched=("t1",))}, False),
        ({"spec": BulkSpec(action=BulkAction.REPLAY, actor="user:ann")}, False),
        ({"spec": run_of(1, stop_on_fail_share=0.2).spec}, False),
    ],
)
def test_when_a_replay_looks_at_its_tasks(change: dict[str, Any], due: bool) -> None:
    assert bulk_again.is_due(replace(replay_of(30, 10), **change), 5.0) is due
