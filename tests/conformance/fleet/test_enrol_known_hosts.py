"""What a join token may do to hosts that the project knows already."""

from __future__ import annotations

import pytest

from holdfast.core.fleet.model import HostDriver
from holdfast.errors import Conflict
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import enrol, make_agents
from tests.conformance.fleet.support import BY, PROJECT, add_host


@pytest.mark.parametrize("driver", ["ssh", "simulated"])
async def test_a_host_of_another_driver_is_not_taken_over(store: Store, driver: str) -> None:
    await add_host(store, "db-1", driver=driver, address="root@db-1")
    with pytest.raises(Conflict, match=f"is driven by {driver}.*host edit db-1 --driver agent"):
        await enrol(make_agents(store), store, "db-1")
    assert (await Hosts(store).get(PROJECT, "db-1")).driver.value == driver


async def test_a_host_that_waits_for_its_agent_gets_it(store: Store) -> None:
    host = await add_host(store, "db-2", labels={"role": "db"})
    await Hosts(store).edit(host.id, BY, state="cordoned")
    await enrol(make_agents(store), store, "db-2", labels={"role": "web"})
    found = await Hosts(store).get(PROJECT, "db-2")
    assert (found.driver, found.state.value) == (HostDriver.AGENT, "cordoned")
    assert found.labels == {"role": "db"}
