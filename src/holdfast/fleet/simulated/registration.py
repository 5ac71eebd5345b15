"""Registers simulated hosts: `sim-0001`, `sim-0002`, ... with labels that the seed draws.

Promises: a second call finds the hosts of the first. A batch of hosts is one transaction. A host of the same
name that is not simulated is left alone, and refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from holdfast.core.fleet.hosts.entry import HostEntry, check_entry
from holdfast.core.fleet.model import Host, HostDriver
from holdfast.core.ids import Ids
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import Conflict
from holdfast.fleet.agents.local import add_local_agents
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.simulated.dice import Dice
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work
from holdfast.store.store import Store
from holdfast.sync.rows import own as sync_own

BATCH: Final = 500
ACTOR: Final = "simulation"
ROLES: Final = (*("web",) * 6, *("worker",) * 2, "db", "cache")
RACKS: Final = 20
ZONES: Final = ("a", "b", "c")


def entries_of(count: int, seed: int) -> list[HostEntry]:
    """The hosts of a seed. The first ones are the same whatever their number."""
    digits = max(4, len(str(count)))
    entries = []
    for nth in range(1, count + 1):
        dice = Dice(seed, f"labels {nth}")
        labels = {
            "role": ROLES[dice.below(len(ROLES))],
            "rack": f"r{dice.below(RACKS) + 1:02}",
            "zone": ZONES[dice.below(len(ZONES))],
        }
        name = f"sim-{nth:0{digits}}"
        entries.append(HostEntry(name=name, driver=HostDriver.SIMULATED.value, labels=labels))
    return entries


async def register(
    store: Store,
    entries: Sequence[HostEntry],
    *,
    project: str = DEFAULT_PROJECT,
    heartbeat_seconds: float,
) -> list[Host]:
    """Makes the hosts and the nodes of their agents. Conflict if one exists that is not simulated."""
    for entry in entries:
        check_entry(entry)
    hosts: list[Host] = []
    for start in range(0, len(entries), BATCH):
        script = partial(
            _register,
            project=project,
            entries=entries[start : start + BATCH],
            heartbeat_seconds=heartbeat_seconds,
        )
        hosts += await store.run(script)
    return hosts


def _register(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    project: str,
    entries: Sequence[HostEntry],
    heartbeat_seconds: float,
) -> Script[list[Host]]:
    for host in (yield from host_scripts.named(project, [entry.name for entry in entries])):
        if host.driver is not HostDriver.SIMULATED:
            raise Conflict(
                f"host '{host.name}' exists and is not simulated: remove it, or simulate in another project"
            )
    work = Work(now)
    put = yield from host_scripts.put(work, ids, project, entries, actor=ACTOR)
    yield from add_local_agents(put.hosts, heartbeat_seconds, now)
    yield call(sync_own("add_project"), id=project, now=now)
    yield from work.save(dialect, ids.record(now))
    return put.hosts
