"""Runs over many tasks: how they go on, stop and end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast.core import bulk as rules
from holdfast.core.bulk import BATCH, BulkAction, BulkRun, BulkSpec, BulkState
from holdfast.errors import HoldfastError, IllegalTransition, InvalidInput


def run_of(total: int, **spec: Any) -> BulkRun:
    made = BulkSpec(action=BulkAction.ABORT, actor="user:ann", **spec)
    return BulkRun(id="op_1", spec=made, state=BulkState.RUNNING, total=total)


@given(st.lists(st.sampled_from([None, "not-found", "illegal-transition"]), min_size=1))
def test_each_task_is_judged_once(codes: list[str | None]) -> None:
    run, seen = run_of(len(codes)), 0
    while run.state is BulkState.RUNNING:
        batch = codes[run.position : run.position + run.batch]
        assert 0 < len(batch) <= BATCH
        seen += len(batch)
        run = rules.advance(run, batch, 1.0)
    assert (run.state, seen) == (BulkState.DONE, len(codes))
    assert (run.done, run.failed) == (codes.count(None), len(codes) - codes.count(None))
    assert sum(run.errors.values()) == run.failed


def test_a_refused_task_of_the_canary_stops_the_run() -> None:
    run = run_of(50, canary=2)
    assert run.batch == 2
    assert rules.advance(run, [None, None], 1.0).batch == BATCH
    stopped = rules.advance(run, [None, "held"], 1.0)
    assert (stopped.state, stopped.detail) == (BulkState.STOPPED, rules.CANARY)
    again = rules.resumed(stopped, 2.0)
    assert (again.state, again.position) == (BulkState.RUNNING, 2)


def test_the_share_of_refusals_stops_the_run_after_enough_tasks() -> None:
    run = run_of(100, stop_on_fail_share=0.5)
    assert rules.advance(run, ["held"] * 9, 1.0).state is BulkState.RUNNING
    assert rules.advance(run, ["held"] * 5 + [None] * 5, 1.0).state is BulkState.RUNNING
    assert rules.advance(run, ["held"] * 6 + [None] * 4, 1.0).state is BulkState.STOPPED


def test_a_rate_makes_smaller_batches_and_pauses() -> None:
    assert (run_of(9, rate_per_second=3).batch, run_of(9, rate_per_second=0.1).batch) == (3, 1)
    assert run_of(9, rate_per_second=0.5).pause_seconds(1) == 2.0


def test_what_has_ended_does_not_change() -> None:
    done = rules.advance(run_of(1), [None], 1.0)
    for change in (rules.resumed, lambda run, now: rules.stopped(run, "x", now)):
        with pytest.raises(IllegalTransition):
            change(done, 2.0)
    stopped = rules.stopped(run_of(1), "x", 1.0)
    assert rules.stopped(stopped, "y", 2.0) is stopped


@pytest.mark.parametrize(
    "spec",
    [
        {"rate_per_second": 0},
        {"canary": 0},
        {"stop_on_fail_share": 2},
        {"args": {"to_node": "n"}},
        {"action": BulkAction.REASSIGN},
    ],
)
def test_a_bad_run_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises((InvalidInput, HoldfastError)):
        BulkSpec(**{"action": BulkAction.ABORT, "actor": "a", **spec})
