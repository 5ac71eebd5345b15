"""Rehearsals: repeatable, true to the planner, without effects outside."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.errors import EmptySelection, UnknownHost
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.model import JobStatus
from holdfast.errors import BadConfig, InvalidInput
from holdfast.fleet.blocks.blocks import NewBlock
from holdfast.fleet.simulated.faults import SimulatedFaults
from holdfast.fleet.simulated.registration import entries_of
from holdfast.sim.fleet.rehearsal import Assumptions, Rehearsal, rehearse

HOSTS = entries_of(40, 1)
BAD = SimulatedFaults(loss=0.1, delay=(0.05, 0.5), duplicate=0.05, crash=0.02)


def run(
    hosts: list[HostEntry] | None = None,
    faults: SimulatedFaults = BAD,
    assumed: dict[str, Any] | None = None,
    **fields: Any,
) -> Rehearsal:
    body = {"command_type": "exec", "command": "deploy now", "selector": "*"} | fields
    groups, blocks = body.pop("groups", {}), body.pop("blocks", ())
    return rehearse(
        msgspec.convert(body, JobRequest),
        HOSTS if hosts is None else hosts,
        assumptions=Assumptions(faults=faults, **({"seed": 7} | (assumed or {}))),
        groups=groups,
        blocks=blocks,
    )


def test_a_rehearsal_is_repeatable_and_depends_on_its_seed() -> None:
    first = run(rollout={"waves": [1, "10%", "rest"], "max_in_flight": 5})
    assert first == run(rollout={"waves": [1, "10%", "rest"], "max_in_flight": 5})
    other = run(rollout={"waves": [1, "10%", "rest"], "max_in_flight": 5}, assumed={"seed": 8})
    assert first.seconds != other.seconds
    assert [wave.size for wave in first.waves] == [1, 4, 35]
    assert first.most_running <= 5
    assert sum(first.kinds.values()) == first.hosts == 40


def test_healthy_hosts_take_the_time_of_the_command() -> None:
    outcome = run(
        faults=SimulatedFaults(),
        assumed={"command_seconds": (10.0, 10.0)},
        rollout={"waves": [], "max_in_flight": 10},
    )
    assert (outcome.status, outcome.kinds) == (JobStatus.SUCCESS, {"succeeded": 40})
    assert outcome.seconds == pytest.approx(40.0, abs=2.0)
    assert (outcome.most_running, outcome.starts, outcome.halt) == (10, 40, None)


def test_hosts_that_fail_halt_the_job() -> None:
    outcome = run(assumed={"fail": 0.5}, rollout={"waves": ["rest"], "max_in_flight": 4})
    assert outcome.status is JobStatus.FAILED
    assert outcome.halt is not None
    assert "failed" in outcome.halt
    assert outcome.halted_after is not None
    assert outcome.halted_after <= outcome.seconds
    assert outcome.kinds["skipped"] > 0


def test_every_command_fails_on_the_assumed_share_of_hosts() -> None:
    outcome = run(
        HOSTS[:10],
        command="systemctl restart nginx",
        assumed={"fail": 1.0},
        faults=SimulatedFaults(),
        rollout={"waves": [], "budget": {"failed": None}},
    )
    assert (outcome.status, outcome.kinds) == (JobStatus.FAILED, {"failed": 10})


def test_blocks_and_groups_of_the_project_count() -> None:
    outcome = run(
        groups={"blue": "zone=a"},
        blocks=[NewBlock(reason="no", selector="@blue")],
        faults=SimulatedFaults(),
    )
    blocked = sum((host.labels or {})["zone"] == "a" for host in HOSTS)
    assert outcome.kinds == {"blocked": blocked, "succeeded": 40 - blocked}
    assert len(outcome.excluded) == blocked


def test_an_approval_counts_as_given() -> None:
    assert run(command_type="shell", faults=SimulatedFaults()).status is JobStatus.SUCCESS


def test_commands_that_simulated_hosts_know_do_what_they_say() -> None:
    outcome = run(command="exit 3", faults=SimulatedFaults())
    assert (outcome.status, outcome.kinds) == (JobStatus.FAILED, {"failed": 40})


def test_bad_requests_are_refused_as_a_job_would_be() -> None:
    with pytest.raises(EmptySelection):
        run(selector="role=nothing")
    with pytest.raises(UnknownHost):
        run(selector="web-1")
    with pytest.raises(BadConfig, match="loss"):
        run(faults=SimulatedFaults(loss=2.0))
    with pytest.raises(InvalidInput, match="takes"):
        run(assumed={"command_seconds": (2.0, 1.0)})
