"""What the log of a worker without a database says about runs that are taken from it."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.task import RunId
from holdfast.core.worker.wire import CommandFrame, LostRun
from holdfast.engine.owned_run import OwnedRun
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.remote.heartbeat import RemoteHeartbeat
from holdfast.remote.leases import Leases
from holdfast.remote.losses import lost_runs
from tests.unit.remote.test_refused_reports import claimed


def holding(owned: OwnedRun) -> RemoteHeartbeat:
    """The heartbeat of a worker that holds this run."""
    clock = VirtualClock()
    runs = OwnedRuns(clock, lambda *_: True, lambda _: None)
    runs.by_id[owned.run] = owned
    owned.started = True
    owned.worker = SimpleNamespace(cancel=lambda: None)  # type: ignore[assignment]
    link = SimpleNamespace(acknowledge=lambda _: None)
    pool = SimpleNamespace(busy=1, maximum=1)
    leases = Leases(clock, runs)
    return RemoteHeartbeat(clock, link, runs, pool, leases, lease_seconds=30.0)  # type: ignore[arg-type]


def command(run: RunId, reason: str) -> CommandFrame:
    return CommandFrame(
        id="ivn_1",
        kind="ABORT",
        task_id=run.task_id,
        fence=run.fence,
        reason=reason,
        requested_by="user:ann",
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("wrong\nhost\x1b[2J", "user:ann has asked for ABORT (wrong host"),
        ("", "user:ann has asked for ABORT; the handler is cancelled (ivn_1)"),
    ],
)
async def test_an_operators_command_is_named_once(
    caplog: pytest.LogCaptureFixture, reason: str, words: str
) -> None:
    owned = OwnedRun(claimed())
    beat = holding(owned)
    with caplog.at_level(logging.INFO, "holdfast.tasks"):
        assert beat.obey(command(owned.run, reason)) is None
        beat.obey(command(owned.run, reason))
        beat.lose(
            lost_runs([LostRun(task_id=owned.run.task_id, fence=owned.run.fence, reason="aborted")])
        )
    (record,) = caplog.records
    assert words in record.getMessage()
    assert "\n" not in record.getMessage()
    assert "\x1b" not in record.getMessage()
    assert record.__dict__["intervention_id"] == "ivn_1"
    assert beat.lost == 1


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("released", "the task was given back to its queue"),
        ("of a newer\x00 version", "of a newer"),
        ("", "another node has it, or its lease has ended"),
    ],
)
async def test_the_reason_of_a_gateway_is_named(
    caplog: pytest.LogCaptureFixture, reason: str, words: str
) -> None:
    owned = OwnedRun(claimed())
    beat = holding(owned)
    with caplog.at_level(logging.INFO, "holdfast.tasks"):
        beat.lose(
            lost_runs([LostRun(task_id=owned.run.task_id, fence=owned.run.fence, reason=reason)])
        )
    (record,) = caplog.records
    assert words in record.getMessage()
    assert "\x00" not in record.getMessage()
