"""A node's heartbeat: what it holds is renewed, the node is seen, and it hears what it is believed to run.

Promises: a lease is renewed only under the fence it was given with. Each statement may stand alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.task import RunId
from holdfast.store.script import Script, call, call_rows


class Kept(msgspec.Struct, frozen=True):
    """What a node's heartbeat brought back."""

    lost: set[RunId]
    """Runs whose leases are not the node's any more."""
    owned: list[tuple[str, int, float]]
    """What the store believes that it runs: (id, fence, started at)."""
    latest_at: float
    """The latest time at which a node of this store was seen, by that node's clock."""
    is_known: bool
    """False: the node has to register, for the first time or because it was taken for lost."""


class Owner(Protocol):
    """The part of a dialect that a heartbeat needs."""

    def owned(self, node: str) -> Script[list[Any]]: ...


def beat(
    dialect: Owner,
    node: str,
    info_json: str,
    *,
    held: Sequence[RunId],
    until: float,
    now: float,
) -> Script[Kept]:
    """`held` are the runs to renew."""
    lost = yield from _extend(held, until)
    seen = yield call("beat_node", id=node, now=now, info_json=info_json)
    owned = yield from dialect.owned(node)
    return Kept(lost, owned, seen[0][0] if seen else now, is_known=bool(seen))


def _extend(held: Sequence[RunId], until: float) -> Script[set[RunId]]:
    """Renews leases; the runs whose leases were lost."""
    rows: list[tuple[Any, ...]] = list(held)
    kept = (yield call_rows("extend_leases", rows, until=until)) if rows else []
    return set(held) - {RunId(*row) for row in kept}
