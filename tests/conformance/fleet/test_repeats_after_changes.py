"""The same request again, after the settings or the hosts have changed, is answered as the first time."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.fleet.commands.command_type import command_types
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.rules import FleetRules
from holdfast.errors import HoldfastError
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.control import JobControl
from holdfast.fleet.jobs.create import Jobs
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT

TYPE = {"argv": ["true", "{command}"], "options": True, "env": ["COLOUR"], "approval": "none"}


def rules_with(**types: dict[str, Any]) -> FleetRules:
    return FleetRules(command_types=command_types(types))


@pytest.mark.parametrize("less", [None, {"env": []}, {"options": False}])
async def test_a_repeat_after_the_settings_allow_less_finds_its_job(
    store: Store, less: dict[str, Any] | None
) -> None:
    fleet = FleetBench(store, rules_with(t=TYPE))
    names = await fleet.add_hosts(2)
    request = JobRequest(
        command_type="t", command="-x", env={"COLOUR": "red"}, hosts=names, external_id="deploy-1"
    )
    first = await fleet.jobs.create(request, BY)
    later = Jobs(store, FleetRules() if less is None else rules_with(t=TYPE | less), fleet.bus)
    again = await later.create(request, BY)
    assert (again.created, again.job.id) == (False, first.job.id)
    for other in ({"external_id": "deploy-2"}, {"command": "-y"}):
        with pytest.raises(HoldfastError):
            await later.create(JobRequest(**{**_fields(request), **other}), BY)


def _fields(request: JobRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__struct_fields__}


async def test_a_repeated_retry_finds_its_job_after_a_host_was_removed(store: Store) -> None:
    fleet = FleetBench(store, rules_with(t=TYPE))
    names = await fleet.add_hosts(3)
    job = (await fleet.create(names, command_type="t", command="x")).job
    await fleet.run_out(job.id, lambda task: False)
    control = JobControl(store, fleet.rules, fleet.bus)
    first = await control.retry(job.id, BY, external_id="again-1")
    await Hosts(store).remove((await Hosts(store).get(PROJECT, names[0])).id, BY)
    later = JobControl(store, FleetRules(), fleet.bus)
    again = await later.retry(job.id, BY, external_id="again-1")
    assert (first.job.hosts, again.created, again.job.id) == (3, False, first.job.id)
    with pytest.raises(HoldfastError):
        await control.retry(job.id, BY, only=["lost"], external_id="again-1")
