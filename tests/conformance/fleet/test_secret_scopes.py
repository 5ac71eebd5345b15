"""A secret with a scope is for the jobs that the scope names: at creation, planning and the go."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import CommandRefused
from holdfast.core.fleet.commands.command_type import command_types
from holdfast.core.fleet.commands.secrets import SecretRef
from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout.policy import RolloutRequest
from holdfast.core.fleet.rules import FleetRules
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.jobs.control import JobControl
from holdfast.fleet.secret_values import SecretSource, SecretValues
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import TestAgent, enrol, join_token
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT

TYPE = {"argv": ["{command}"], "options": True, "env": ["PW"], "approval": "none"}
ASKED = {"command_type": "show", "command": "true", "secrets": {"PW": SecretRef("pw")}}
ENVIRON = {"PW": "correct horse"}


def secrets(**scope: Any) -> SecretValues:
    return SecretValues({"pw": SecretSource(env="PW", **scope)}, ENVIRON)


def fleet_of(store: Store, values: SecretValues) -> FleetBench:
    types = command_types({"show": TYPE, "other": TYPE})
    return FleetBench(store, values.rules(FleetRules(command_types=types)))


MINE = secrets(projects=(PROJECT,), command_types=("show",))
NOT_MINE = [
    (secrets(projects=("ops",)), f"not for jobs of the project '{PROJECT}'"),
    (secrets(command_types=("other",)), "not for commands of the type 'show'"),
]


@pytest.mark.parametrize(("values", "refusal"), NOT_MINE)
async def test_a_job_may_not_name_a_secret_that_is_for_others(
    store: Store, values: SecretValues, refusal: str
) -> None:
    hosts = await fleet_of(store, MINE).add_hosts(1)
    for dry_run in (True, False):
        with pytest.raises(CommandRefused, match=refusal):
            await fleet_of(store, values).create(hosts, dry_run=dry_run, **ASKED)
    asked = {"external_id": "deploy-1", **ASKED}
    made = await fleet_of(store, MINE).create(hosts, **asked)
    again = await fleet_of(store, values).create(hosts, **asked)
    assert (again.job.id, again.created) == (made.job.id, False)


@pytest.mark.parametrize(("values", "refusal"), NOT_MINE)
async def test_a_job_whose_secret_is_for_others_now_starts_no_more_hosts(
    store: Store, values: SecretValues, refusal: str
) -> None:
    before, after = fleet_of(store, MINE), fleet_of(store, values)
    rollout = RolloutRequest(waves=(), max_in_flight=1)
    job = (await before.create(await before.add_hosts(3), rollout=rollout, **ASKED)).job
    await before.plan(job.id)
    ended = await after.plan(job.id)
    assert ended.status is JobStatus.FAILED
    found = await after.executions(job.id)
    assert {e.outcome for e in found} == {"refused"}
    assert all(refusal in e.detail for e in found)
    control = JobControl(store, after.rules, after.bus)
    with pytest.raises(CommandRefused, match=refusal):
        await control.retry(job.id, BY)


@pytest.mark.parametrize(("values", "refusal"), NOT_MINE)
async def test_a_run_gets_no_secret_that_is_for_others_now(
    store: Store, values: SecretValues, refusal: str
) -> None:
    fleet = fleet_of(store, MINE)
    known = Agents(store, fleet.rules, secrets=values)
    agent = TestAgent(known, await enrol(known, store, "web-001", await join_token(store)))
    job = (await fleet.create(["web-001"], **ASKED)).job
    await fleet.publish()
    assert (await agent.sync()).offers == []
    [execution] = await fleet.executions(job.id)
    assert execution.outcome == "refused"
    assert refusal in execution.detail


async def test_a_run_gets_the_secret_that_is_for_its_job(store: Store) -> None:
    fleet = fleet_of(store, MINE)
    known = Agents(store, fleet.rules, secrets=MINE)
    agent = TestAgent(known, await enrol(known, store, "web-001", await join_token(store)))
    job = (await fleet.create(["web-001"], **ASKED)).job
    await fleet.publish()
    [offer] = (await agent.sync()).offers
    assert offer.env == ENVIRON
    assert (await fleet.job(job.id)).finished_at is None
