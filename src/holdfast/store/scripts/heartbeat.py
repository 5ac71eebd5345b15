"""A node's heartbeat: what it holds is renewed, the node is seen, and it hears what it is believed to run.

Promises: a lease is renewed only under the fence it was given with; a task that another transaction holds at
that moment costs no other task its renewal, and counts as kept. Each statement may stand alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.task import RunId, Task
from holdfast.store.script import Script, call, call_rows


class HeartbeatAnswer(msgspec.Struct, frozen=True):
    """What a node's heartbeat brought back."""

    lost: set[RunId]
    """Runs whose leases are not the node's any more."""
    owned: list[tuple[str, int, float]]
    """What the store believes that it runs: (id, fence, started at)."""
    latest_at: float
    """The latest time at which a node of this store was seen, by that node's clock."""
    is_known: bool
    """False: the node has to register, for the first time or because it was taken for lost."""
    is_whole: bool = True
    """Whether all leases were renewed; if not, another transaction held a task: try again soon."""


class Owner(Protocol):
    """The part of a dialect that a heartbeat needs."""

    def owned(self, node: str) -> Script[list[Any]]: ...


def heartbeat(
    dialect: Owner,
    node: str,
    info_json: str,
    *,
    held: Sequence[RunId],
    until: float,
    now: float,
) -> Script[HeartbeatAnswer]:
    """`held` are the runs to renew."""
    lost, is_whole = yield from _extend(held, until)
    seen = yield call("beat_node", id=node, now=now, info_json=info_json)
    owned = yield from dialect.owned(node)
    latest = seen or (yield call("latest_seen"))
    return HeartbeatAnswer(lost, owned, latest[0][0] or now, is_known=bool(seen), is_whole=is_whole)


def _extend(held: Sequence[RunId], until: float) -> Script[tuple[set[RunId], bool]]:
    """Renews leases; the runs whose leases were lost, and whether all others were renewed."""
    rows: list[tuple[Any, ...]] = [(run.task_id, run.fence) for run in held]
    kept = (yield call_rows("extend_leases", rows, until=until)) if rows else []
    missing = set(held) - {RunId(*row) for row in kept}
    if not missing:
        return missing, True
    tasks: list[Task] = yield call("get_tasks", ids=sorted({run.task_id for run in missing}))
    ours = {RunId(t.id, t.fence) for t in tasks if t.lease_until is not None}
    return missing - ours, not missing & ours
