"""Simulated hosts are registered once, with labels of their seed, and beside no other host of the name."""

from __future__ import annotations

import pytest

from holdfast.core.fleet.agents.wire import AgentStart
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.model import HostDriver
from holdfast.errors import Conflict
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.simulated.registration import entries_of, register
from holdfast.store.store import Store
from tests.conformance.fleet.support import BY, PROJECT


async def test_hosts_are_registered_once_and_their_agents_start(store: Store) -> None:
    first = await register(store, entries_of(3, 7), heartbeat_seconds=25.0)
    again = await register(store, entries_of(3, 7), heartbeat_seconds=25.0)
    assert [host.name for host in first] == ["sim-0001", "sim-0002", "sim-0003"]
    assert [host.id for host in first] == [host.id for host in again]
    assert {host.driver for host in first} == {HostDriver.SIMULATED}
    agents = Agents(store)
    for nth in (2, 3):
        started = await agents.start(first[0].id, AgentStart(boot_id="b", journal_id="j"), BY)
        assert (started.host_id, started.incarnation) == (first[0].id, nth)


def test_the_seed_draws_the_labels() -> None:
    assert entries_of(50, 7) == entries_of(50, 7)
    assert entries_of(50, 7) != entries_of(50, 8)
    assert entries_of(5, 7) == entries_of(50, 7)[:5]
    labels = [entry.labels or {} for entry in entries_of(200, 7)]
    assert {tuple(each) for each in labels} == {("role", "rack", "zone")}
    assert {each["role"] for each in labels} == {"web", "worker", "db", "cache"}
    assert entries_of(10_000, 7)[0].name == "sim-00001"


async def test_a_host_that_is_not_simulated_is_left_alone(store: Store) -> None:
    await Hosts(store).add(PROJECT, HostEntry(name="sim-0002", driver="ssh"), BY)
    with pytest.raises(Conflict, match="sim-0002"):
        await register(store, entries_of(3, 7), heartbeat_seconds=25.0)
    assert len((await Hosts(store).find(PROJECT, ["sim-0001"])).hosts) == 0
