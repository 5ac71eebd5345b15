"""The JSON form of each object, for the command line and the gateways: plain data with Python field names.

Promises: the names are stable, because programs read them. Each time is given as epoch seconds and as
ISO 8601.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.core.decision import Decision
from holdfast.core.event import Event
from holdfast.core.lease import Audit
from holdfast.core.schedule import Schedule
from holdfast.core.task import Priority, Status, Task
from holdfast.primitives.locks import LeaseInfo
from holdfast.queue.dead_letters import DeadGroup
from holdfast.queue.nodes import Node
from holdfast.queue.queues import QueueView
from holdfast.queue.stats import Stats
from holdfast.queue.why import Why
from holdfast.store.rows import Dependency

View = dict[str, Any]
OF_ONE_PROCESS: Final = (
    "registered_handlers",
    "fenced",
    "leases_lost",
    "restarts",
    "deaf_handlers",
    "abandoned_threads",
    "troubles",
)
"""Fields of `Stats` that describe one process, not the store."""


def iso(at: float) -> str:
    """Formats a time, e.g. 2026-01-31T12:00:00.000Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def stamped(**times: float | None) -> View:
    """Returns each time in two fields: `created_at` in epoch seconds, `created_at_iso` in ISO 8601."""
    view: View = {}
    for name, at in times.items():
        view[name] = at
        view[f"{name}_iso"] = None if at is None else iso(at)
    return view


def task(of: Task) -> View:
    return {
        "id": of.id,
        "type": of.type,
        "queue": of.queue,
        "priority": of.priority.name.lower(),
        "status": of.status.value,
        "payload": of.payload,
        "metadata": of.metadata,
        "attempts": of.attempts,
        "max_attempts": of.max_attempts,
        "deaths": of.deaths,
        "version": of.version,
        "fence": of.fence,
        **stamped(
            created_at=of.created_at,
            updated_at=of.updated_at,
            due_at=of.due_at,
            started_at=of.started_at,
            finished_at=of.finished_at,
        ),
        "node": of.node,
        "lease_until": of.lease_until,
        "result": of.result,
        "error": of.error,
        "failure": msgspec.to_builtins(of.failure),
        "fingerprint": of.fingerprint,
        "progress": of.progress,
        "checkpoint": of.checkpoint,
        "options": msgspec.to_builtins(of.options),
        "limits": list(of.limit_names),
        "gate": of.gate,
        "waiting_on": of.waiting_on,
        "idempotency_key": of.idempotency_key,
        "held_by": of.held_by,
    }


def event(of: Event) -> View:
    return {
        "position": str(of.position),
        "kind": of.kind,
        **stamped(at=of.at),
        "task_id": of.task_id,
        "type": of.type,
        "data": of.data,
    }


def whole_task(of: Task, parents: Iterable[Dependency], dependents: list[str]) -> View:
    """A task with its dependencies and dependents."""
    return {
        **task(of),
        "depends_on": [
            {
                "task_id": parent.parent_id,
                "policy": parent.policy.value,
                "settled": parent.is_settled,
            }
            for parent in parents
        ],
        "dependents": dependents,
    }


def why(of: Why) -> View:
    view: View = msgspec.to_builtins(of)
    return view


def group(of: DeadGroup) -> View:
    return {
        "fingerprint": of.fingerprint,
        "count": of.count,
        "type": of.type,
        "error": of.error,
        **stamped(first_at=of.first_at, last_at=of.last_at),
        "sample_id": of.sample_id,
    }


def node(of: Node) -> View:
    return {
        "id": of.id,
        "is_live": of.is_live,
        **stamped(started_at=of.started_at, seen_at=of.seen_at),
        "lease_seconds": of.lease_seconds,
        "workers": of.workers,
        "busy": of.busy,
        "deaf_handlers": of.deaf_handlers,
        "abandoned_threads": of.abandoned_threads,
        "troubles": of.troubles,
        "queues": of.queues,
        "types": of.types,
    }


def decision(of: Decision) -> View:
    return {
        "id": of.id,
        "task_id": of.task_id,
        "project": of.project,
        "key": of.key,
        "question": of.question,
        "options": list(of.options),
        "schema": None if of.schema_json is None else msgspec.json.decode(of.schema_json),
        "default": None if of.default_json is None else msgspec.json.decode(of.default_json),
        "assignees": list(of.assignees),
        **stamped(deadline_at=of.deadline_at),
        "state": of.state.value,
        "choice": of.choice,
        "data": of.data,
        "by": of.by or None,
        "reason": of.reason,
        **stamped(at=of.at),
        "version": of.version,
    }


def schedule(of: Schedule) -> View:
    return {
        "name": of.name,
        "type": of.type,
        "queue": of.queue,
        "spec": of.spec,
        "timezone": of.timezone,
        "payload": msgspec.json.decode(of.payload_json),
        "priority": Priority(of.priority).name.lower(),
        **stamped(next_at=of.next_at, fired_at=of.fired_at),
        "paused": bool(of.paused),
        "owner": of.owner,
    }


def queue(of: QueueView) -> View:
    return {
        "name": of.name,
        **{status.value: of.counts.get(status.value, 0) for status in Status},
        "is_paused": of.is_paused,
        **stamped(paused_at=of.paused_at),
        "paused_by": of.paused_by,
        "reason": of.reason,
    }


def stats(of: Stats, nodes: list[Node]) -> View:
    """The statistics of the store, with the workers of all live nodes."""
    view: View = msgspec.to_builtins(of)
    for name in OF_ONE_PROCESS:
        del view[name]
    workers = sum(live.workers for live in nodes)
    busy = sum(live.busy for live in nodes)
    return {**view, "nodes": len(nodes), "workers": workers, "available_workers": workers - busy}


def lock(of: LeaseInfo) -> View:
    return {
        "resource": of.resource,
        "is_held": of.is_held,
        "owner": of.owner,
        "fence": of.fence,
        "claim_id": of.claim_id,
        "ttl_seconds": of.ttl_seconds,
        "held_seconds": round(of.held_seconds, 3),
        "seconds_left": round(of.seconds_left, 3),
    }


def whole_lock(of: LeaseInfo) -> View:
    """A lock with its waiters and audit entries."""
    return {
        **lock(of),
        "waiters": [waiter._asdict() for waiter in of.waiters],
        "audit": [lock_audit(audit) for audit in of.audit],
    }


def lock_audit(of: Audit) -> View:
    fields = of._asdict()
    del fields["at"]
    return {**stamped(at=of.at), **fields}
