"""What a seed means: which faults exist, how often, how large the cluster is, what it has to do.

Each seed first draws which kinds of faults there are at all; a run with every fault at once hides more
than it shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final, get_type_hints

import msgspec

from holdfast.errors import BadConfig
from holdfast.sim.draw import Draw

FAULTS: Final = (
    *("loss", "double", "slow", "cut", "clog", "crash", "freeze", "drift", "step", "restart"),
    *("power", "full", "sync", "half-open", "suspend", "put-right"),
)
"""loss, double, slow: of messages. cut, clog: of one direction of a link; half-open: of a connection. crash,
freeze, suspend: of a node; the last stops its timers too. drift, step: of a node's clock; put-right: the
database's goes ahead and is set back. restart: of the database. power, full, sync: of its disk: it loses what
was not synced, has no room, fails to sync."""
CLOCKS: Final = frozenset({"step", "put-right"})
"""Faults that set the database's clock."""


RECOVER_HOURS: Final = 2.0
CASCADE_BATCHES: Final = (1, 2, 3, 1_000)
"""Small ones cut the cascade of every family, so that crashes fall between two batches."""
TRADERS: Final = ((), (), (), (), ("files",), ("files",), ("database",), ("database", "files"))


class Plan(msgspec.Struct, frozen=True):
    """One run."""

    seed: int
    nodes: int
    clients: int
    holders: int
    """Nodes that fight for locks and pay bills once."""
    faults: frozenset[str]
    rate: float
    """How rough it is: 1 is a fault of each kind about every seven minutes of a node."""
    hours: float
    act_seconds: float
    """Between two wishes of a client."""
    lease_seconds: float
    max_workers: int

    @property
    def has_disk(self) -> bool:
        """Whether the database is on a disk that can fail; else in memory, which is faster."""
        return bool(self.faults & {"power", "full", "sync"})

    @property
    def sets_clocks(self) -> bool:
        """Whether the database's clock may jump."""
        return bool(self.faults & CLOCKS)

    recover_hours: float
    """Without faults, within which everything must end."""
    keep_seconds: float
    """For which finished tasks are kept."""
    traders: tuple[str, ...]
    """Where each trader keeps its orders: files or database."""
    lock_servers: int
    """Of a quorum for locks; 0: there is none."""
    together: bool
    """Enqueue and claim in one transaction, as within one process."""
    cascade_batch: int
    """Edges to dependents that one transaction looks at."""
    children: int
    """Of each family of tasks."""
    only: frozenset[str] | None = None
    """The single faults that happen, such as `crash:3`; None for all that are drawn."""


def plan(
    seed: int,
    *,
    hours: float | None = None,
    nodes: int | None = None,
    faults: frozenset[str] | None = None,
    recover_hours: float = RECOVER_HOURS,
) -> Plan:
    """The plan of a seed; what is given is not drawn. Each figure has a stream of its own, so that a new
    one does not change what a seed meant before."""
    draw = Draw(seed, "plan")
    if faults is not None and (unknown := faults - set(FAULTS)):
        raise BadConfig(f"unknown faults {sorted(unknown)}: choose from {', '.join(FAULTS)}")
    drawn = frozenset(kind for kind in FAULTS if draw.stream(kind).chance(0.5))
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
    )


def changed(plan: Plan, changes: Iterable[tuple[str, str]]) -> Plan:
    """The plan with other figures, each given by name as a text; lists are joined by commas."""
    for name, text in changes:
        field = _fields().get(name)
        if field is None:
            raise BadConfig(f"a plan has no '{name}': choose from {', '.join(sorted(_fields()))}")
        value: object = text
        if isinstance(getattr(plan, name), (tuple, frozenset)) or name == "only":
            value = [each for each in text.split(",") if each]
        try:
            plan = msgspec.structs.replace(
                plan, **{name: msgspec.convert(value, field, strict=False)}
            )
        except msgspec.ValidationError as error:
            raise BadConfig(f"'{name}' of a plan cannot be '{text}': {error}") from None
    return plan


def differences(plan: Plan, other: Plan) -> list[tuple[str, str]]:
    """What to change in the other plan to come to this one."""
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
def _fields() -> dict[str, type]:
    """What can be changed, and what it must be."""
    hints = get_type_hints(Plan)
    return {name: hints[name] for name in Plan.__struct_fields__ if name != "seed"}
