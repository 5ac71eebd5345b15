"""The fleet in the simulator: all laws hold, and each of its laws can be broken."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.fleet.model import ApprovalState
from holdfast.core.fleet.status import ExecutionKind
from holdfast.core.task import Failure, FailureKind
from holdfast.fleet.simulated.machine import RealRun
from holdfast.sim.campaign import Options, campaign
from holdfast.sim.checkers import CHECKERS, judge
from holdfast.sim.checkers.fleet import claims_of, kinds_of, runs_by_execution
from holdfast.sim.fleet_history import FleetHistory, Sighting
from holdfast.sim.outcome import Outcome
from holdfast.sim.scenarios import changes_of
from holdfast.sim.world import World

CHUNK = 4
SEEDS = int(os.environ.get("HOLDFAST_SIM_SEEDS", "200")) // 16
"""Each is long. A campaign: `holdfast simulate fleet --seeds 200 --set agents=1000`."""
SHORT = Options(
    hours=0.03,
    recover_hours=0.5,
    changes=(*changes_of("fleet"), ("fleet_act_seconds", "4"), ("agent_crash", "0.1")),
)
CALM = Options(
    hours=0.04,
    faults=(),
    recover_hours=0.5,
    changes=(
        *changes_of("fleet"),
        *(("agents", "12"), ("fleet_act_seconds", "3"), ("agent_crash", "0.1")),
    ),
)


@pytest.mark.parametrize("first_seed", range(0, SEEDS, CHUNK))
def test_all_laws_hold_in_a_fleet(first_seed: int) -> None:
    report = campaign(range(first_seed, min(first_seed + CHUNK, SEEDS)), SHORT)
    assert [verdict.timeline for verdict in report.bad] == []


def test_a_run_is_repeatable() -> None:
    first, second = (campaign(range(1), SHORT).trace_hash for _ in range(2))
    assert first == second


@pytest.fixture(scope="module")
def good() -> Outcome:
    return World(CALM.plan(12)).run()


def test_a_calm_run_has_work_for_every_law(good: Outcome) -> None:
    history = good.record.fleet
    kinds = set(kinds_of(good).values())
    assert judge(good) == {}
    assert {ExecutionKind.SUCCEEDED, ExecutionKind.FAILED} <= kinds
    assert history.aborted
    assert history.approved
    assert history.blocks
    assert history.slots
    assert any(job.approval_id is not None for job in history.jobs.values())
    assert good.trace.counts["agent crashes"]


Tamper = Callable[[Outcome, FleetHistory], object]


def a_run(outcome: Outcome, kind: ExecutionKind) -> RealRun:
    """The last run of an execution with this end."""
    kinds = kinds_of(outcome)
    return next(r[-1] for id, r in runs_by_execution(outcome).items() if kinds.get(id) is kind)


def host_of(outcome: Outcome, run: RealRun) -> str:
    return outcome.record.fleet.executions[run.execution].host_id


def started_again(outcome: Outcome, history: FleetHistory, **changes: Any) -> None:
    run = a_run(outcome, ExecutionKind.SUCCEEDED)
    again = copy.copy(run)
    again.started_at = again.ended_at = outcome.seconds
    for name, value in changes.items():
        setattr(again, name, value)
    history.runs[host_of(outcome, run)] = [*history.runs[host_of(outcome, run)], again]


def beside(outcome: Outcome, history: FleetHistory) -> None:
    run = a_run(outcome, ExecutionKind.SUCCEEDED)
    run.ended_at = outcome.seconds + 1.0
    started_again(outcome, history, token=99)


def other_exit(outcome: Outcome, history: FleetHistory) -> None:
    a_run(outcome, ExecutionKind.SUCCEEDED).exit_code = 7


def nothing_ran(outcome: Outcome, history: FleetHistory) -> None:
    run = a_run(outcome, ExecutionKind.SUCCEEDED)
    host = host_of(outcome, run)
    history.runs[host] = [each for each in history.runs[host] if each is not run]


def never_taken(outcome: Outcome, history: FleetHistory) -> None:
    run = a_run(outcome, ExecutionKind.FAILED)
    execution = history.executions[run.execution]
    history.executions[run.execution] = replace(execution, taken_json="[]")


def superseded(outcome: Outcome, history: FleetHistory, error: str) -> None:
    """After a run that failed, a further attempt was lost before it started."""
    run = a_run(outcome, ExecutionKind.FAILED)
    execution = history.executions[run.execution]
    history.executions[run.execution] = replace(
        execution, token=run.token + 1, exit_code=None, outcome="lost", late_json=None
    )
    failure = Failure(FailureKind.LOST, error)
    outcome.tasks[run.execution] = replace(
        outcome.tasks[run.execution], failure_json=codec.dumps(failure)
    )


def forgotten(outcome: Outcome, history: FleetHistory) -> None:
    superseded(outcome, history, "lost")


def went_back(_: Outcome, history: FleetHistory) -> None:
    id = next(iter(history.shown))
    history.shown[id].append(Sighting(1e9, ExecutionKind.QUEUED, 0, 0))


def became_another(_: Outcome, history: FleetHistory) -> None:
    id = next(id for id, seen in history.shown.items() if seen[-1].kind is ExecutionKind.SUCCEEDED)
    history.shown[id].append(Sighting(1e9, ExecutionKind.LOST, 0, 0))


def crowded(outcome: Outcome, history: FleetHistory) -> None:
    """All hosts of the largest job run it at once."""
    job_id = max(history.jobs, key=lambda job_id: history.jobs[job_id].hosts)
    history.windows.pop(job_id, None)
    history.jobs[job_id] = replace(
        history.jobs[job_id],
        spec_json=history.jobs[job_id].spec_json.replace(
            '"max_in_flight":', '"max_in_flight":1,"was":'
        ),
    )
    for id, execution in history.executions.items():
        if execution.job_id == job_id:
            history.runs[execution.host_id] = [
                *history.runs[execution.host_id],
                RealRun(id, 99, ("true",), 0.0, ended_at=1.0, exit_code=0),
            ]


def aborted_before(outcome: Outcome, history: FleetHistory) -> None:
    _, execution = next(iter(claims_of(outcome)))
    history.aborted[execution.job_id] = 0.0


def unapproved(outcome: Outcome, history: FleetHistory) -> None:
    _, execution = next(iter(claims_of(outcome)))
    job = history.jobs[execution.job_id]
    history.jobs[job.id] = replace(
        job, approval_id="apr_1", approval_state=ApprovalState.WAIT_APPROVAL
    )


def blocked(outcome: Outcome, history: FleetHistory) -> None:
    _, execution = next(iter(claims_of(outcome)))
    block = replace(history.blocks[0], host_id=execution.host_id, selector=None, command_type="*")
    history.blocks[0] = block
    history.blocked[block.id] = (0.0, outcome.seconds)


def miscounted(_: Outcome, history: FleetHistory) -> None:
    job = next(iter(history.jobs.values()))
    history.jobs[job.id] = replace(job, counts_json="{}")


def unfinished(_: Outcome, history: FleetHistory) -> None:
    job = next(iter(history.jobs.values()))
    history.jobs[job.id] = replace(job, finished_at=None)


TAMPERS: list[tuple[str, Tamper]] = [
    ("a host runs one command at a time", beside),
    ("a token starts once", started_again),
    ("a command starts once", lambda o, h: started_again(o, h, token=99)),
    ("an execution has one true outcome", other_exit),
    ("an execution has one true outcome", nothing_ran),
    ("no result is lost", never_taken),
    ("no result is lost", forgotten),
    ("a shown status never goes back", went_back),
    ("a shown status never goes back", became_another),
    ("a rollout keeps its window", crowded),
    ("a halt is final", aborted_before),
    ("nothing starts without its approval", unapproved),
    ("a blocked host gets nothing", blocked),
    ("a job counts each host once", miscounted),
    ("a job counts each host once", unfinished),
    ("a slot is let go", lambda _, h: h.slots.append(("host:x", 1, "e"))),
    ("an external id is one job", lambda _, h: next(iter(h.made.values())).add("job_2")),
]


def copy_of(good: Outcome) -> Outcome:
    record = copy.copy(good.record)
    record.fleet = copy.deepcopy(good.record.fleet)
    return replace(good, record=record, events=[*good.events], tasks={**good.tasks})


@pytest.mark.parametrize(("law", "tamper"), TAMPERS)
def test_a_broken_law_is_noticed(good: Outcome, law: str, tamper: Tamper) -> None:
    outcome = copy_of(good)
    tamper(outcome, outcome.record.fleet)
    assert list(CHECKERS[law](outcome))


def test_the_end_of_an_attempt_before_a_lost_one_is_shown_by_its_failure(good: Outcome) -> None:
    outcome = copy_of(good)
    code = a_run(outcome, ExecutionKind.FAILED).exit_code
    superseded(outcome, outcome.record.fleet, f"lost; the attempt before: exit code {code}")
    assert list(CHECKERS["no result is lost"](outcome)) == []


def test_every_law_of_the_fleet_has_a_tamper() -> None:
    ours = {law for law, check in CHECKERS.items() if check.__module__.endswith("checkers.fleet")}
    assert {law for law, _ in TAMPERS} == ours
