"""Registers nodes, removes them and declares them lost, each with an event.

Promises: a silent node is declared lost once, by the first sweeper that sees it; a node that returns
registers again. The heartbeat of a registered node writes no event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from holdfast.core import codec, node as rules
from holdfast.core.affinity import Affinity
from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.core.node_identity import NodeState
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import record


def join(dialect: Dialect, ids: Ids, now: float, *, node: str, info_json: str) -> Script[bool]:
    """Registers a node that starts, or that returns after it was lost. Returns whether it was absent."""
    rows = yield call("join_node", id=node, now=now, info_json=info_json)
    yield from _tell(dialect, ids, now, "node.registered", [{"node": row[0]} for row in rows])
    return bool(rows)


def leave(dialect: Dialect, ids: Ids, now: float, *, node: str) -> Script[bool]:
    rows = yield call("forget_node", id=node)
    yield from _tell(dialect, ids, now, "node.left", [{"node": row[0]} for row in rows])
    return bool(rows)


def lose(dialect: Dialect, ids: Ids, now: float, *, forget_before: float) -> Script[int]:
    """Declares silent nodes lost and deletes those lost long ago. Returns how many were lost now."""
    rows = yield call("nodes")
    silent: list[tuple[Any, ...]] = [(row[0], row[2]) for row in rows if _is_silent(row, now)]
    if not silent:
        return 0
    lost = yield call_rows("lose_nodes", silent, now=now)
    events = [{"node": node, "seen_at": seen_at} for node, seen_at in lost]
    yield call("prune_nodes", before=forget_before)
    yield from _tell(dialect, ids, now, "node.lost", events)
    return len(events)


def affinity_to(nodes: Collection[str], seconds: float, *, now: float) -> Script[Affinity | None]:
    """The preference for those of the nodes that are live. None: for none of them."""
    if not seconds or not nodes:
        return None
    rows = yield call("standing_nodes", ids=sorted(nodes), state=NodeState.LIVE.value)
    live = frozenset(node for node, seen_at, info_json in rows if _is_live(seen_at, info_json, now))
    return Affinity(seconds, live) if live else None


def _is_live(seen_at: float, info_json: str | None, now: float) -> bool:
    lease_seconds = rules.lease_seconds_of(codec.loads_object(info_json or "{}"))
    return rules.is_live(seen_at, lease_seconds, now)


def _is_silent(row: Any, now: float) -> bool:
    _, _, seen_at, info_json, _ = row
    lease_seconds = rules.lease_seconds_of(codec.loads_object(info_json))
    return rules.is_lost(seen_at, lease_seconds, now)


def _tell(
    dialect: Dialect, ids: Ids, now: float, kind: str, payloads: list[dict[str, Any]]
) -> Script[None]:
    if payloads:
        record_id = yield from dialect.record_ref(ids.record(now))
        events = [NewEvent(kind, now, "", "", data) for data in payloads]
        yield from record(dialect, record_id, now, events, Counter())
