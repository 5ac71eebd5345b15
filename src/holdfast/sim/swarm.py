"""Draws a plan from a seed: which kinds of faults exist, how often, the size of the cluster, its work.

Each seed first draws which kinds of faults it has at all: a run with every fault at once hides more than
it shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from typing import Final, get_type_hints

import msgspec

from holdfast.errors import BadConfig
from holdfast.sim.draw import Draw

FAULTS: Final = (
    *("loss", "double", "slow", "cut", "clog", "crash", "freeze", "drift", "step", "restart"),
    *("power", "full", "sync", "half-open", "suspend", "put-right"),
)
"""Messages: loss, double, slow. Links: cut, clog (one direction), half-open (a connection). Nodes: crash,
freeze, suspend (also stops timers). Clocks: drift, step; put-right sets the database's clock ahead and back.
Database: restart. Its disk: power (unsynced writes are lost), full, sync (a sync fails)."""
CLOCKS: Final = frozenset({"step", "put-right"})
"""Faults that set the database's clock."""


RECOVER_HOURS: Final = 2.0
CASCADE_BATCHES: Final = (1, 2, 3, 1_000)
"""Small batches split every cascade, so that crashes fall between two batches."""
TRADERS: Final = ((), (), (), (), ("files",), ("files",), ("database",), ("database", "files"))

GATEWAYS: Final = (*(0,) * 57, 1, 2, 3)


class Plan(msgspec.Struct, frozen=True):
    """The figures of one run."""

    seed: int
    nodes: int
    clients: int
    holders: int
    """Nodes that compete for locks and make idempotent payments."""
    faults: frozenset[str]
    rate: float
    """Fault rate: 1 is a fault of each kind about every seven minutes per node."""
    hours: float
    act_seconds: float
    """Mean time between two requests of a client."""
    lease_seconds: float
    max_workers: int

    @property
    def has_disk(self) -> bool:
        """Whether the database is on a disk that can fail. Otherwise it is in memory, which is faster."""
        return bool(self.faults & {"power", "full", "sync"})

    @property
    def sets_clocks(self) -> bool:
        """Whether faults set the database's clock."""
        return bool(self.faults & CLOCKS)

    recover_hours: float
    """Time without faults within which all tasks must end."""
    keep_seconds: float
    """Retention of finished tasks."""
    traders: tuple[str, ...]
    """Where each trader keeps its orders: files or database."""
    lock_servers: int
    """Servers of the lock quorum; 0 for no quorum."""
    together: bool
    """Whether enqueue and claim share a transaction, as within one process."""
    cascade_batch: int
    """Edges to dependents that one transaction processes."""
    children: int
    """Children in each family of tasks."""
    gateways: int = 0
    """Gateways; 0 for no gateways and none of their clients. Drawn only where the extra `gateway` is
    installed."""
    remote_workers: int = 0
    """Workers without a database, behind the gateways."""
    watchers: int = 0
    """Clients that watch the live feed of the gateways."""
    offline_nodes: int = 0
    """Nodes that change tasks offline and sync through the gateways."""
    operators: int = 0
    """Clients of the gateways that submit, intervene and decide."""
    agents: int = 0
    """Hosts of the fleet, each with an agent; 0 for no fleet."""
    fleet_servers: int = 2
    """Servers of the fleet, if there is one."""
    fleet_operators: int = 2
    """Operators who make jobs, approve, block, pause and abort."""
    fleet_act_seconds: float = 10.0
    """Mean time between two acts of such an operator."""
    fleet_whole: bool = False
    """Whether the first operator begins with a job on all hosts, and approves it."""
    agent_loss: float = 0.1
    """The share of messages between agents and servers that are lost. The next ones are like it."""
    agent_jitter_seconds: float = 0.5
    """The longest way of a message."""
    agent_duplicate: float = 0.05
    agent_reorder: float = 0.02
    agent_crash: float = 0.02
    """The share of executions in which the agent is killed; every other time its host loses power."""
    agent_partition: float = 0.02
    """The share of time in which a host is cut off."""
    agent_skew_seconds: float = 3600.0
    """How wrong the clocks of hosts are, at most."""
    request_seconds: float = 60.0
    """Mean time between two requests of an operator to a worker process, which scale it or replace it."""
    schedules: bool = True
    """Whether the workers register schedules, which enqueue six tasks a minute."""
    only: frozenset[str] | None = None
    """The single faults to inject, such as `crash:3`; None for all that are drawn."""


def plan(
    seed: int,
    *,
    hours: float | None = None,
    nodes: int | None = None,
    faults: frozenset[str] | None = None,
    recover_hours: float = RECOVER_HOURS,
) -> Plan:
    """The plan of a seed; given figures are not drawn. Each figure has its own random stream, so a new
    figure does not change the meaning of existing seeds."""
    draw = Draw(seed, "plan")
    if faults is not None and (unknown := faults - set(FAULTS)):
        raise BadConfig(f"unknown faults {sorted(unknown)}: choose from {', '.join(FAULTS)}")
    drawn = frozenset(kind for kind in FAULTS if draw.stream(kind).chance(0.5))
    gateways = draw.stream("gateways").pick(GATEWAYS) if _has_gateway_packages() else 0
    return Plan(
        seed=seed,
        nodes=nodes or draw.stream("nodes").whole(1, 5),
        clients=draw.stream("clients").whole(1, 3),
        holders=draw.stream("holders").pick((0, 0, 2, 3)),
        faults=drawn if faults is None else faults,
        rate=draw.stream("rate").between(0.2, 2.0),
        hours=draw.stream("hours").between(0.1, 0.5) if hours is None else hours,
        act_seconds=draw.stream("act").between(2.0, 20.0),
        lease_seconds=draw.stream("lease").pick((5.0, 9.0, 30.0)),
        max_workers=draw.stream("workers").whole(1, 8),
        recover_hours=recover_hours,
        keep_seconds=draw.stream("keep").pick((1e9, 1e9, 60.0)),
        traders=draw.stream("traders").pick(TRADERS),
        lock_servers=draw.stream("lock servers").pick((0, 0, 0, 3, 5)),
        together=draw.stream("together").chance(0.3),
        cascade_batch=draw.stream("cascade batch").pick(CASCADE_BATCHES),
        children=draw.stream("children").pick((1, 2, 4)),
        gateways=gateways,
        remote_workers=draw.stream("remote workers").whole(0, 3) if gateways else 0,
        watchers=draw.stream("watchers").whole(0, 3) if gateways else 0,
        offline_nodes=draw.stream("offline nodes").pick((0, 0, 2, 3)) if gateways else 0,
        operators=draw.stream("operators").whole(0, 2) if gateways else 0,
    )


def changed(plan: Plan, changes: Iterable[tuple[str, str]]) -> Plan:
    """The plan with changed figures, given as (name, text); items of a list are separated by commas."""
    for name, text in changes:
        field = _fields().get(name)
        if field is None:
            raise BadConfig(f"a plan has no '{name}': choose from {', '.join(sorted(_fields()))}")
        value: object = text
        if isinstance(getattr(plan, name), (tuple, frozenset)) or name == "only":
            value = [item for item in text.split(",") if item]
        try:
            plan = msgspec.structs.replace(
                plan, **{name: msgspec.convert(value, field, strict=False)}
            )
        except msgspec.ValidationError as error:
            raise BadConfig(f"'{name}' of a plan cannot be '{text}': {error}") from None
    return plan


def differences(plan: Plan, other: Plan) -> list[tuple[str, str]]:
    """The changes that turn the other plan into this one."""
    return [
        (name, _text(getattr(plan, name)))
        for name in Plan.__struct_fields__
        if getattr(plan, name) != getattr(other, name)
    ]


def _text(value: object) -> str:
    if isinstance(value, (frozenset, tuple)):
        return ",".join(sorted(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _has_gateway_packages() -> bool:
    """Whether the extra `gateway` is installed."""
    return all(find_spec(name) is not None for name in ("fastapi", "httpx2", "websockets"))


@cache
def _fields() -> dict[str, type]:
    """Figures that can be changed, with their types."""
    hints = get_type_hints(Plan)
    return {name: hints[name] for name in Plan.__struct_fields__ if name != "seed"}
