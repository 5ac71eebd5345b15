"""Objects of `/api/v2/sync`: camelCase, times as text beside what remains in milliseconds."""

from __future__ import annotations

from typing import Any

from holdfast.core import codec
from holdfast.core.check import check_id, check_number, shown
from holdfast.core.event import Position
from holdfast.core.exchange.handshake import Tombstone
from holdfast.core.intervention import DryRun, Intervention, InterventionType
from holdfast.core.intervention_args import ARGS as TAKEN, GRACE_SECONDS_MAX
from holdfast.core.wire import WHOLE_MAX, time_text
from holdfast.errors import InvalidInput
from holdfast.sync.exchange.exchange import ResetAnswer
from holdfast.sync.exchange.push_state import ItemResult
from holdfast.sync.nodes.nodes import HeldTask, NodeView
from holdfast.sync.status import FixedLock, LogEntry, SyncStatus
from holdfast.sync.sync_task import SyncTask, TaskLock

ARGS = {
    "toNode": "to_node",
    "fallbackMs": "fallback_seconds",
    "delayMs": "delay_seconds",
    "graceMs": "grace_seconds",
}
"""The arguments of interventions that have another name here. Those in milliseconds are seconds elsewhere."""
NAMES = {inner: outer for outer, inner in ARGS.items()}
MILLIS_MAX = {"graceMs": GRACE_SECONDS_MAX * 1000}


def read_args(kind: str, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an intervention as the product names them. InvalidInput has the names of this API."""
    if kind not in InterventionType.__members__:
        return args
    names = sorted(NAMES.get(name, name) for name in TAKEN[InterventionType(kind)])
    if unknown := sorted(set(args) - set(names)):
        has = ", ".join(names) or "none"
        raise InvalidInput(f"{kind} has no argument {shown(unknown[0])}: it has {has}")
    if kind == InterventionType.REASSIGN and args.get("toNode") is None:
        raise InvalidInput("REASSIGN needs the argument toNode: the node that gets the task")
    return {ARGS.get(name, name): _read_arg(name, value) for name, value in args.items()}


def _read_arg(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "toNode":
        return check_id(name, value)
    if name in ARGS:
        return check_number(name, value, most=MILLIS_MAX.get(name, WHOLE_MAX)) / 1000
    return value


def args(args_json: str) -> dict[str, Any]:
    """The arguments of an intervention."""
    stored = codec.loads_object(args_json)
    return {
        NAMES.get(name, name): millis(value) if name.endswith("_seconds") else value
        for name, value in stored.items()
    }


def millis(seconds: float) -> int:
    return round(seconds * 1000)


def maybe_time(at: float | None) -> str | None:
    return None if at is None else time_text(at)


def task(seen: SyncTask, now: float, *, bodies: bool = True) -> dict[str, Any]:
    """A task. Without bodies it is the state in a refusal."""
    shown: dict[str, Any] = {
        "id": seen.id,
        "projectId": seen.project,
        "type": seen.type,
        "status": seen.status.value,
        "desired": seen.desired,
        "version": seen.version,
        "fence": seen.fence,
        "attempt": seen.attempt,
        "progress": seen.progress.done,
        "phase": seen.progress.phase,
        "iteration": seen.progress.iteration,
        "error": seen.error,
        "metadata": seen.metadata,
        "labels": seen.labels,
        "lock": None if seen.lock is None else lock(seen.id, seen.lock, now),
        "sync": {
            "version": seen.version,
            "logicalClock": seen.clock,
            "lastWriter": {"nodeId": seen.writer, "nodeType": seen.writer_kind},
            "physicalTime": time_text(seen.updated_at),
            "contentHash": seen.content_hash,
        },
        "createdAt": time_text(seen.created_at),
        "updatedAt": time_text(seen.updated_at),
    }
    if bodies:
        shown |= {"payload": seen.payload, "result": seen.result}
    return shown


def lock(name: str, held: TaskLock, now: float) -> dict[str, Any]:
    return {
        "taskId": name,
        "lockedBy": held.node,
        "lockedAt": time_text(held.locked_at),
        "heartbeatAt": time_text(held.heartbeat_at),
        "expiresAt": time_text(held.expires_at),
        "expiresInMs": max(0, millis(held.expires_at - now)),
        "lockDuration": millis(held.duration_seconds),
        "claimId": held.claim_id,
        "fence": held.fence,
    }


def held_task(run: HeldTask) -> dict[str, Any]:
    return {
        "taskId": run.task_id,
        "fence": run.fence,
        "expiresInMs": millis(run.expires_in_seconds),
    }


def node(view: NodeView, now: float) -> dict[str, Any]:
    row = view.row
    return {
        "nodeId": row.id,
        "nodeType": row.kind,
        "projectId": row.project,
        "state": row.state,
        "live": view.is_live,
        "incarnation": row.incarnation,
        "capabilities": row.capabilities,
        "labels": codec.loads(row.labels_json),
        "registeredAt": maybe_time(row.registered_at),
        "lastSeen": time_text(row.seen_at),
        "lastSeenMsAgo": max(0, millis(now - row.seen_at)),
        "running": view.running,
        "lag": {
            "events": view.lag_events,
            "ms": None if view.lag_seconds is None else millis(view.lag_seconds),
        },
        "clockSkewMs": row.skew_ms,
    }


def deleted(stones: dict[str, Tombstone]) -> list[dict[str, Any]]:
    return [
        {"taskId": name, "version": stone.version, "deletedAt": time_text(stone.deleted_at)}
        for name, stone in stones.items()
    ]


def reset(answer: ResetAnswer | None) -> dict[str, Any] | None:
    return None if answer is None else {"reason": answer.reason, "cursor": str(answer.cursor)}


def result(answer: ItemResult, now: float) -> dict[str, Any]:
    """The answer to one item of a push."""
    shown: dict[str, Any] = {"taskId": answer.task_id, "success": answer.success}
    if answer.success:
        shown["newVersion"] = answer.new_version
    fields = {
        "resolution": answer.resolution,
        "error": answer.error,
        "detail": answer.detail,
        "fence": answer.fence,
        "conflictId": answer.conflict_id,
        "contentError": answer.content_error,
        "deletedAt": maybe_time(answer.deleted_at),
    }
    shown |= {name: value for name, value in fields.items() if value is not None}
    if answer.deleted_at is not None:
        shown["version"] = answer.new_version
    shown |= {name: True for name in ("duplicate", "late") if getattr(answer, name)}
    if answer.state is not None and not answer.success:
        shown["serverState"] = task(answer.state, now, bodies=False)
    return shown


def intervention(row: Intervention) -> dict[str, Any]:
    effect = row.effect
    return {
        "id": row.id,
        "type": row.type.value,
        "taskId": row.task_id,
        "projectId": row.project,
        "args": args(row.args_json),
        "reason": row.reason,
        "actor": row.actor,
        "claimedBy": row.requested_by or None,
        "state": row.state.value,
        "effect": None
        if effect is None
        else {"from": effect.before, "to": effect.after, "fence": effect.fence},
        "targetNode": row.target_node,
        "targetFence": row.target_fence,
        "issuedAt": time_text(row.issued_at),
        "deliveredAt": maybe_time(row.delivered_at),
        "endedAt": maybe_time(row.ended_at),
        "expiresAt": time_text(row.expires_at),
        "detail": row.detail,
    }


def dry_run(of: DryRun) -> dict[str, Any]:
    """What an intervention would do."""
    effect = of.effect
    return {
        "effect": None
        if effect is None
        else {"from": effect.before, "to": effect.after, "fence": effect.fence},
        "runner": of.runner,
        "dependents": of.dependents,
        "wouldRunNext": of.would_run_next,
    }


def command(row: Intervention, name: str, now: float) -> dict[str, Any]:
    """An intervention as its runner gets it."""
    return {
        "id": row.id,
        "type": row.type.value,
        "taskId": name,
        "reason": row.reason,
        "requestedBy": row.actor,
        "args": args(row.args_json),
        "fence": row.target_fence,
        "issuedAt": time_text(row.issued_at),
        "expiresInMs": max(0, millis(row.expires_at - now)),
    }


def status(seen: SyncStatus, now: float, *, keep_events: float) -> dict[str, Any]:
    figures = seen.figures
    conflicts = {
        "open": figures.get("conflicts_open", 0),
        "total": figures.get("conflicts_total", 0),
    }
    sync = {
        name: figures.get(name, 0)
        for name in ("pushes", "accepted", "conflicts", "duplicates", "gaps", "resets", "fenced")
    }
    soonest = seen.soonest_expiry_seconds
    return {
        "projectId": seen.project.id,
        "serverClock": seen.project.clock,
        "serverTime": time_text(now),
        "epoch": seen.head.epoch,
        "position": str(seen.head),
        "oldest": str(seen.oldest),
        "tasks": {**seen.tasks, "held": seen.held},
        "nodes": seen.nodes,
        "locks": {
            "held": seen.locks_held,
            "expired": seen.locks_expired,
            "soonestExpiryMs": None if soonest is None else millis(soonest),
        },
        "conflicts": conflicts,
        "interventions": {"pending": seen.interventions_pending},
        "decisions": {"open": seen.decisions_open},
        "sync": sync,
        "lag": {
            "maxMs": millis(seen.lag_seconds),
            "events": seen.lag_events,
            "secondsUntilFalloff": max(0, round(keep_events - seen.lag_seconds)),
        },
    }


def log_entry(entry: LogEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": time_text(entry.at),
        "nodeId": entry.node,
        "op": entry.op,
        "taskId": entry.task_id,
        "mutationId": entry.mutation_id,
        "outcome": entry.outcome,
        "error": entry.code,
        "resolution": entry.resolution,
        "fromVersion": entry.from_version,
        "toVersion": entry.to_version,
        "clock": entry.clock,
    }


def fixed_lock(fixed: FixedLock) -> dict[str, Any]:
    return {
        "taskId": fixed.task_id,
        "lockedBy": fixed.locked_by,
        "expiredMsAgo": millis(fixed.expired_seconds_ago),
        "newStatus": fixed.new_status.value,
        "fence": fixed.fence,
    }


def place(position: Position) -> dict[str, Any]:
    return {"epoch": position.epoch, "cursor": str(position)}
