"""Registers nodes, removes them and declares them lost, each with an event.

Promises: a silent node is declared lost once, by the first sweeper that sees it; a node that returns
registers again. The heartbeat of a registered node writes no event. Tasks that prefer a node are open to all
in the transaction in which it leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from holdfast.core import codec, node as rules
from holdfast.core.affinity import Affinity
from holdfast.core.command import Instruction, Unassign
from holdfast.core.decide import Transition
from holdfast.core.event import NewEvent
from holdfast.core.gate import of_preference
from holdfast.core.ids import Ids
from holdfast.core.node_identity import NodeState
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply
from holdfast.store.scripts.work import Work, record

OPEN_BATCH: Final = 500
"""Tasks whose preference one transaction ends. The sweeper ends the others."""


def join(dialect: Dialect, ids: Ids, now: float, *, node: str, info_json: str) -> Script[bool]:
    """Registers a node that starts, or that returns after it was lost. Returns whether it was absent."""
    rows = yield call("join_node", id=node, now=now, info_json=info_json)
    yield from _tell(dialect, ids, now, "node.registered", [{"node": row[0]} for row in rows])
    return bool(rows)


def leave(dialect: Dialect, ids: Ids, now: float, *, node: str) -> Script[bool]:
    """Removes a node that stops. Returns whether it was registered."""
    rows = yield call("forget_node", id=node)
    work = Work(now)
    yield from open_preferred(work, node)
    work.events += [NewEvent("node.left", now, "", "", {"node": row[0]}) for row in rows]
    yield from apply.finish(work, ids.record(now), dialect)
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
    """The preference for those of the nodes that are in service. None: for none of them."""
    if not seconds or not nodes:
        return None
    late_at = yield from in_service(nodes)
    prompt = frozenset(node for node, at in late_at.items() if at > now)
    return Affinity(seconds, prompt) if prompt else None


def in_service(nodes: Collection[str]) -> Script[dict[str, float]]:
    """Those of the nodes that may claim, and when each is late unless it sends a heartbeat."""
    rows = yield call("standing_nodes", ids=sorted(nodes), state=NodeState.LIVE.value)
    return {
        node: rules.late_at(seen_at, codec.loads_object(info_json or "{}"))
        for node, seen_at, info_json in rows
    }


def open_preferred(work: Work, node: str) -> Script[int]:
    """Opens tasks that prefer this node to all nodes. Returns how many. Skips those that another transaction
    holds. The caller saves the work."""
    tasks = yield call("parked_tasks", gate=of_preference(node), limit=OPEN_BATCH)
    work.load(tasks)
    unassign = Unassign(is_gone=True)
    rulings = [apply.carry_out(work, Instruction(task.id, unassign)) for task in tasks]
    return sum(isinstance(ruling, Transition) for ruling in rulings)


def open_late(dialect: Dialect, ids: Ids, now: float, *, nodes: Collection[str]) -> Script[int]:
    """Opens tasks that prefer one of these nodes, if it is late or gone. Returns how many."""
    late_at = yield from in_service(nodes)
    work, opened = Work(now), 0
    for node in sorted(nodes):
        if late_at.get(node, now) <= now:
            opened += yield from open_preferred(work, node)
    yield from apply.finish(work, ids.record(now), dialect)
    return opened


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
