"""How executions end that never started: one rule, by the halt, by people, by time."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.fleet.jobs.unstarted import unstarted_end
from holdfast.core.fleet.model import ApprovalState, JobStatus
from holdfast.core.task import Status
from tests.unit.core.fleet.test_status import make_execution, make_job, make_task

PAST, FUTURE = 1.0, 10_000.0
NOW = 1_000.0


def halted(cause: str, mode: str = "drain") -> dict[str, Any]:
    return {"halt_json": f'{{"mode":"{mode}","reason":"why","actor":"ann","cause":"{cause}"}}'}


@pytest.mark.parametrize(
    ("job", "status", "held", "kind"),
    [
        ({}, Status.QUEUED, False, None),
        (halted("budget", "pause"), Status.QUEUED, False, None),
        (halted("budget"), Status.QUEUED, False, "skipped"),
        (halted("budget"), Status.BLOCKED, False, "skipped"),
        (halted("operator"), Status.QUEUED, True, "cancelled_before_start"),
        (halted("operator") | {"not_after": PAST}, Status.QUEUED, False, "cancelled_before_start"),
        (halted("rejected"), Status.QUEUED, False, "rejected"),
        ({"approval_state": ApprovalState.REJECTED}, Status.QUEUED, False, "rejected"),
        ({"approval_state": ApprovalState.EXPIRED}, Status.QUEUED, False, "expired"),
        (halted("expired"), Status.BLOCKED, False, "expired"),
        (halted("expired"), Status.QUEUED, False, "timeout_delivery"),
        (halted("expired"), Status.QUEUED, True, "expired"),
        ({"not_after": PAST}, Status.BLOCKED, False, "expired"),
        ({"not_after": PAST}, Status.QUEUED, False, "timeout_delivery"),
        ({"not_after": PAST}, Status.RUNNING, False, "timeout_delivery"),
        ({"not_after": PAST}, Status.QUEUED, True, "expired"),
        ({"status": JobStatus.FAILED}, Status.QUEUED, False, "skipped"),
    ],
)
def test_the_table(job: dict[str, Any], status: Status, held: bool, kind: str | None) -> None:
    execution = make_execution(block_id="blk_1" if held else None)
    given = {"not_after": FUTURE, "status": JobStatus.RUNNING} | job
    end = unstarted_end(make_job(**given), execution, make_task(status=status), NOW)
    assert (None if end is None else end.kind) == kind
    assert end is None or end.detail
