"""How long a process with a blocked event loop keeps its leases, and what it reports."""

from __future__ import annotations

import pytest

from holdfast.core.codec import dumps
from holdfast.core.loop_block import (
    BLOCK_SECONDS_MAX,
    HeldRun,
    LoopBlock,
    block_of,
    is_kept,
    reported_block,
)
from holdfast.core.task import NO_TIMEOUT, Status, Task
from tests.unit.core.test_decide import task_in


def task(timeout: float | None) -> Task:
    options = dumps({} if timeout is None else {"timeout_seconds": timeout})
    return task_in(Status.RUNNING, options_json=options)


@pytest.mark.parametrize(
    ("timeout", "default", "run_seconds", "blocked_seconds", "kept"),
    [
        (30.0, None, 39.0, 20.0, True),
        (30.0, None, 39.1, 20.0, False),
        (None, 30.0, 39.1, 20.0, False),
        (None, None, 10_000.0, 20.0, True),
        (NO_TIMEOUT, 30.0, 10_000.0, 20.0, True),
        (NO_TIMEOUT, 30.0, 0.0, BLOCK_SECONDS_MAX, True),
        (NO_TIMEOUT, 30.0, 0.0, BLOCK_SECONDS_MAX + 0.1, False),
    ],
)
def test_a_lease_is_kept_within_the_timeout_and_the_bound_of_a_block(
    timeout: float | None,
    default: float | None,
    run_seconds: float,
    blocked_seconds: float,
    kept: bool,
) -> None:
    run = HeldRun(task(timeout), run_seconds)
    block = LoopBlock(blocked_seconds)
    assert is_kept(run, block, lease_seconds=9.0, default_timeout=default) is kept


def test_a_report_of_a_block_is_read_back() -> None:
    block = block_of({"blocked": {"seconds": 3.5, "task_id": "t-1", "task_type": "mail"}})
    assert block == LoopBlock(3.5, "t-1", "mail")
    assert str(block) == (
        "its event loop has been blocked for 3.5s by the handler of task t-1 (mail)"
    )
    assert str(LoopBlock(3.5)) == "its event loop has been blocked for 3.5s"


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "{}", '{"seconds": "long"}', "[" * 5_000 + "]" * 5_000],
    ids=["empty", "no-json", "list", "no-fields", "no-number", "deep"],
)
def test_what_is_no_report_of_a_block_is_none(text: str) -> None:
    assert reported_block(text) is None


def test_a_report_of_another_process_is_one_short_line() -> None:
    block = reported_block('{"seconds": 1, "task_type": "a\\nb' + "x" * 1_000 + '"}')
    assert block is not None
    assert block.task_type.startswith("a b")
    assert len(block.task_type) == 200
