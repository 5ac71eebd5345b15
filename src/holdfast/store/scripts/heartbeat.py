"""A node's heartbeat: renews its leases, updates its last-seen time, reads which tasks the store has it run.

Promises: a lease is renewed only under the fence of its claim. A task that another transaction holds does
not prevent the renewal of the others, and its lease does not count as lost. The statements need no common
transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.gate import of_reserved
from holdfast.core.task import RunId, Task
from holdfast.store.script import Script, call, call_rows


class HeartbeatAnswer(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    renewed: set[RunId]
    """Runs whose leases were renewed."""
    lost: set[RunId]
    """Runs whose leases the node no longer holds."""
    owned: list[tuple[str, int, float]]
    """Tasks that run on this node according to the store: (id, fence, started at)."""
    latest_at: float
    """The latest heartbeat of any node of this store, by that node's clock."""
    is_known: bool
    """False: the node has to register, because it is new or was declared lost."""
    has_reserved: bool = False
    """Whether tasks wait that only this node may claim."""
    is_whole: bool = True
    """False: another transaction held a task, so its lease was not renewed: the run is in neither set. The
    node should retry soon."""


class Owner(Protocol):
    """The part of a dialect that a heartbeat needs."""

    def owned(self, node: str) -> Script[list[Any]]: ...


def heartbeat(
    dialect: Owner,
    node: str,
    info_json: str,
    *,
    runs: Sequence[RunId],
    until: float,
    now: float,
) -> Script[HeartbeatAnswer]:
    """Runs one heartbeat. `runs`: the runs to renew."""
    renewed, lost = yield from _extend(runs, until)
    gates = of_reserved(node)
    beat = yield call("beat_node", id=node, now=now, info_json=info_json, gates=gates)
    owned = yield from dialect.owned(node)
    if beat:
        latest_at, has_reserved = beat[0]
    else:
        has_reserved = yield call("reserved_tasks", gates=gates, now=now)
        latest_at = (yield call("latest_seen"))[0][0]
    return HeartbeatAnswer(
        renewed,
        lost,
        owned,
        latest_at or now,
        is_known=bool(beat),
        has_reserved=bool(has_reserved),
        is_whole=len(renewed) + len(lost) == len(set(runs)),
    )


def _extend(runs: Sequence[RunId], until: float) -> Script[tuple[set[RunId], set[RunId]]]:
    """Renews leases. Returns the runs whose leases were renewed, and those whose leases were lost."""
    if not runs:
        return set(), set()
    rows: list[tuple[Any, ...]] = [(run.task_id, run.fence) for run in runs]
    extended = yield call_rows("extend_leases", rows, until=until)
    renewed = {RunId(*row) for row in extended}
    missing = set(runs) - renewed
    if not missing:
        return renewed, missing
    tasks: list[Task] = yield call("get_tasks", ids=sorted({run.task_id for run in missing}))
    still_owned = {RunId(t.id, t.fence) for t in tasks if t.lease_until is not None}
    return renewed, missing - still_owned
