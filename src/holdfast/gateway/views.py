"""The JSON forms of the API `/api/v1`. Times are RFC 3339; durations are seconds.

Promises: rows of lists have previews and sizes of bodies, single resources have the bodies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.core import codec
from holdfast.core.audit import AuditRow
from holdfast.core.decision import Decision
from holdfast.core.event import Event
from holdfast.core.gate import is_held
from holdfast.core.intervention import DryRun, Effect, Intervention
from holdfast.core.schedule import Schedule
from holdfast.core.task import Priority, Status, Task
from holdfast.core.wire import preview, time_text
from holdfast.primitives.locks import LeaseInfo
from holdfast.queue.dead_letters import DeadGroup
from holdfast.queue.nodes import Node
from holdfast.queue.queues import QueueView
from holdfast.store.decisions import AskedPoint
from holdfast.store.rows import Dependency
from holdfast.store.search import TaskRow
from holdfast.sync.access.token import Token

View = dict[str, Any]


def at(when: float | None) -> str | None:
    """A time as text; None stays None."""
    return None if when is None else time_text(max(0.0, when))


class Extra(msgspec.Struct, frozen=True):
    """What a task has beside its row."""

    client_id: str | None = None
    """The name that nodes use for it."""
    metrics: dict[str, float] = {}


NO_EXTRA = Extra()


def task(of: Task, now: float, extra: Extra = NO_EXTRA) -> View:
    """A task with its bodies."""
    failure = of.failure
    return {
        "id": of.id,
        "client_id": extra.client_id,
        "project": of.project,
        "type": of.type,
        "queue": of.queue,
        "priority": of.priority.name.lower(),
        "status": of.status.value,
        "desired": "paused" if of.status is Status.PAUSED or is_held(of) else "run",
        "held_by": of.held_by,
        "gate": of.gate,
        "version": of.version,
        "fence": of.fence,
        "attempts": of.attempts,
        "max_attempts": of.max_attempts,
        "deaths": of.deaths,
        **_task_times(of),
        "node": of.node,
        "claim_id": of.claim_id,
        "lease_until": at(of.lease_until),
        "lease_remaining_seconds": _remaining(of.lease_until, now),
        "progress": progress(of.progress),
        "metrics": extra.metrics,
        "payload": of.payload,
        "payload_bytes": len(of.payload_json.encode()),
        "result": of.result,
        "result_bytes": None if of.result_json is None else len(of.result_json.encode()),
        "metadata": of.metadata,
        "failure": msgspec.to_builtins(failure),
        "waiting_on": of.waiting_on,
        "idempotency_key": of.idempotency_key,
        "job_id": None,
    }


def progress(value: codec.Json) -> View | None:
    """The latest report of a runner; None before the first one."""
    if value is None:
        return None
    fields = value if isinstance(value, dict) else {"done": value}
    return {
        "done": fields.get("done", 0.0),
        "note": fields.get("note", ""),
        "phase": fields.get("phase", ""),
        "iteration": fields.get("iteration", 0),
        "subtasks": fields.get("subtasks", []),
    }


def whole_task(
    of: Task, now: float, parents: Iterable[Dependency], dependents: list[str], extra: Extra
) -> View:
    """A task with its dependencies and dependents."""
    edges = [
        {"id": parent.parent_id, "policy": parent.policy.value, "settled": parent.is_settled}
        for parent in parents
    ]
    return {**task(of, now, extra), "depends_on": edges, "dependents": dependents}


def task_row(of: TaskRow, now: float) -> View:
    """A task in a list."""
    return {
        "id": of.id,
        "project": of.project,
        "type": of.type,
        "queue": of.queue,
        "priority": Priority(of.priority).name.lower(),
        "status": of.status,
        "held_by": of.held_by,
        "gate": of.gate,
        "version": of.version,
        "fence": of.fence,
        "attempts": of.attempts,
        "max_attempts": of.max_attempts,
        "deaths": of.deaths,
        **_task_times(of),
        "node": of.node,
        "claim_id": of.claim_id,
        "lease_remaining_seconds": _remaining(of.lease_until, now),
        "progress": None if of.progress_json is None else progress(codec.loads(of.progress_json)),
        "payload_preview": of.payload_preview,
        "payload_bytes": of.payload_bytes,
        "result_preview": of.result_preview,
        "result_bytes": of.result_bytes,
        "error": None if of.error is None else preview(of.error),
        "fingerprint": of.fingerprint,
        "waiting_on": of.waiting_on,
        "idempotency_key": of.idempotency_key,
    }


def _task_times(of: Task | TaskRow) -> View:
    names = ("created_at", "updated_at", "due_at", "started_at", "finished_at")
    return {name: at(getattr(of, name)) for name in names}


def _remaining(until: float | None, now: float) -> float | None:
    return None if until is None else round(max(0.0, until - now), 3)


def event(of: Event) -> View:
    return {
        "position": str(of.position),
        "kind": of.kind,
        "at": at(of.at),
        "task_id": of.task_id or None,
        "type": of.type or None,
        "project": of.project or ("default" if of.task_id else None),
        "version": of.version or None,
        "data": {
            name: at(value) if name.endswith("_at") and isinstance(value, int | float) else value
            for name, value in of.data.items()
        },
    }


def queue(of: QueueView) -> View:
    return {
        "name": of.name,
        "counts": of.counts,
        "oldest_due_seconds": of.oldest_due_seconds,
        "paused_at": at(of.paused_at),
        "paused_by": of.paused_by,
        "reason": of.reason,
    }


def dead_group(of: DeadGroup) -> View:
    return {
        "fingerprint": of.fingerprint,
        "count": of.count,
        "type": of.type,
        "error": of.error,
        "first_at": at(of.first_at),
        "last_at": at(of.last_at),
        "sample_id": of.sample_id,
    }


def schedule(of: Schedule) -> View:
    return {
        "name": of.name,
        "spec": of.spec,
        "timezone": of.timezone,
        "type": of.type,
        "payload": codec.loads(of.payload_json),
        "queue": of.queue,
        "priority": Priority(of.priority).name.lower(),
        "next_at": at(of.next_at),
        "fired_at": at(of.fired_at),
        "paused": bool(of.paused),
        "owner": of.owner,
    }


def lock(of: LeaseInfo) -> View:
    return {
        "resource": of.resource,
        "is_held": of.is_held,
        "owner": of.owner,
        "fence": of.fence,
        "claim_id": of.claim_id,
        "ttl_seconds": of.ttl_seconds,
        "held_seconds": round(of.held_seconds, 3),
        "remaining_seconds": round(of.seconds_left, 3),
    }


def whole_lock(of: LeaseInfo) -> View:
    acts = [{**act._asdict(), "at": at(act.at)} for act in of.audit]
    return {**lock(of), "waiters": [waiter._asdict() for waiter in of.waiters], "audit": acts}


def node(of: Node, now: float) -> View:
    return {
        "id": of.id,
        "is_live": of.is_live,
        "started_at": at(of.started_at),
        "seen_at": at(of.seen_at),
        "seen_seconds_ago": round(max(0.0, now - of.seen_at), 3),
        "lease_seconds": of.lease_seconds,
        "workers": of.workers,
        "busy": of.busy,
        "queues": of.queues,
        "types": of.types,
        "deaf_handlers": of.deaf_handlers,
        "abandoned_threads": of.abandoned_threads,
        "troubles": of.troubles,
    }


def token(of: Token, now: float) -> View:
    return {
        "id": of.id,
        "kind": of.kind.value,
        "name": of.name,
        "principal": of.principal,
        "roles": list(of.roles),
        "projects": list(of.projects),
        "scopes": None if of.scopes is None else list(of.scopes),
        "node_id": of.node_id,
        "uses_left": of.uses_left,
        "state": of.state(now).value,
        "created_by": of.created_by,
        "created_at": at(of.created_at),
        "expires_at": at(of.expires_at),
        "revoked_at": at(of.revoked_at),
        "last_used_at": at(of.used_at),
    }


def audit(of: AuditRow) -> View:
    view: View = msgspec.structs.asdict(of)
    del view["detail_json"]
    return {**view, "at": at(of.at), "detail": codec.loads(of.detail_json)}


def intervention(of: Intervention) -> View:
    """An intervention with the step that its runner has reached."""
    return {
        "id": of.id,
        "type": of.type.value,
        "task_id": of.task_id,
        "project": of.project,
        "args": codec.loads(of.args_json),
        "reason": of.reason,
        "actor": of.actor,
        "claimed_by": of.claimed_by or None,
        "state": of.state.value,
        "effect": effect(of.effect),
        "target_node": of.target_node,
        "target_fence": of.target_fence,
        "issued_at": at(of.issued_at),
        "delivered_at": at(of.delivered_at),
        "ended_at": at(of.ended_at),
        "expires_at": at(of.expires_at),
        "detail": of.detail,
    }


def effect(of: Effect | None) -> View | None:
    """How a task changed; None if it was already so."""
    return None if of is None else {"from": of.before, "to": of.after, "fence": of.fence}


def dry_run(of: DryRun) -> View:
    """What an intervention would do."""
    return {
        "task_id": of.task_id,
        "effect": effect(of.effect),
        "runner": of.runner,
        "dependents": of.dependents,
        "would_run_next": of.would_run_next,
    }


def decision(of: Decision, now: float) -> View:
    """A decision. `choice` is null until it is decided."""
    return {
        "id": of.id,
        "task_id": of.task_id,
        "job_id": None,
        "project": of.project,
        "key": of.key,
        "question": of.question,
        "options": list(of.options),
        "schema": None if of.schema_json is None else codec.loads(of.schema_json),
        "default": None if of.default_json is None else codec.loads(of.default_json),
        "assignees": list(of.assignees),
        "deadline_at": at(of.deadline_at),
        "remaining_seconds": None if of.deadline_at is None else max(0.0, of.deadline_at - now),
        "state": of.state.value,
        "choice": of.choice,
        "data": of.data,
        "by": of.by or None,
        "reason": of.reason,
        "at": at(of.at),
        "version": of.version,
    }


def asked_point(of: AskedPoint | None) -> View | None:
    """The checkpoint with which a task asked."""
    if of is None:
        return None
    return {"type": of.type, "note": of.note, "data": of.data, "created_at": at(of.created_at)}
