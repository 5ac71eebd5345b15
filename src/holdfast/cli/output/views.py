"""Nouns as plain data, with the field names of Python.

Promises: these names are stable: programs read them. Times come twice, as epoch seconds and ISO 8601.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.cli.output.times import stamped
from holdfast.core.event import Event
from holdfast.core.schedule import Schedule
from holdfast.core.task import Priority, Task
from holdfast.queue.dead_letters import DeadGroup
from holdfast.queue.nodes import Node
from holdfast.queue.why import Why

View = dict[str, Any]


def task(each: Task) -> View:
    return {
        "id": each.id,
        "type": each.type,
        "queue": each.queue,
        "priority": each.priority.name.lower(),
        "status": each.status.value,
        "payload": each.payload,
        "metadata": each.metadata,
        "attempts": each.attempts,
        "max_attempts": each.max_attempts,
        "deaths": each.deaths,
        "version": each.version,
        "fence": each.fence,
        **stamped(
            created_at=each.created_at,
            updated_at=each.updated_at,
            due_at=each.due_at,
            started_at=each.started_at,
            finished_at=each.finished_at,
        ),
        "node": each.node,
        "lease_until": each.lease_until,
        "result": each.result,
        "error": each.error,
        "failure": msgspec.to_builtins(each.failure),
        "fingerprint": each.fingerprint,
        "progress": each.progress,
        "checkpoint": each.checkpoint,
        "options": msgspec.to_builtins(each.options),
        "limits": list(each.limit_names),
        "gate": each.gate,
        "waiting_on": each.waiting_on,
        "idempotency_key": each.idempotency_key,
        "held_by": each.held_by,
    }


def event(each: Event) -> View:
    return {
        "position": str(each.position),
        "kind": each.kind,
        **stamped(at=each.at),
        "task_id": each.task_id,
        "type": each.type,
        "data": each.data,
    }


def why(each: Why) -> View:
    found: View = msgspec.to_builtins(each)
    return found


def group(each: DeadGroup) -> View:
    return {
        "fingerprint": each.fingerprint,
        "count": each.count,
        "type": each.type,
        "error": each.error,
        **stamped(first_at=each.first_at, last_at=each.last_at),
        "sample_id": each.sample_id,
    }


def node(each: Node) -> View:
    return {
        "id": each.id,
        "is_live": each.is_live,
        **stamped(started_at=each.started_at, seen_at=each.seen_at),
        "lease_seconds": each.lease_seconds,
        "workers": each.workers,
        "busy": each.busy,
        "deaf_handlers": each.deaf_handlers,
        "abandoned_threads": each.abandoned_threads,
        "troubles": each.troubles,
        "queues": each.queues,
        "types": each.types,
    }


def schedule(each: Schedule) -> View:
    return {
        "name": each.name,
        "type": each.type,
        "queue": each.queue,
        "spec": each.spec,
        "timezone": each.timezone,
        "payload": msgspec.json.decode(each.payload_json),
        "priority": Priority(each.priority).name.lower(),
        **stamped(next_at=each.next_at, fired_at=each.fired_at),
        "paused": bool(each.paused),
        "owner": each.owner,
    }
