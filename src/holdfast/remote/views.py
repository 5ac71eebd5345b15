"""Tasks, events and other objects from the JSON of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.core import codec
from holdfast.core.event import Event, Position
from holdfast.core.priority import parse as parse_priority
from holdfast.core.schedule import Schedule
from holdfast.core.task import Status, Task
from holdfast.queue.dead_letters import DeadGroup
from holdfast.queue.nodes import Node
from holdfast.queue.queues import QueueView

View = dict[str, Any]


def time_of(text: str | None) -> float | None:
    """Epoch seconds of a time of the API."""
    return None if text is None else datetime.fromisoformat(text).timestamp()


def task(view: View) -> Task:
    """A task. A row of a list has no bodies: its payload is null."""
    failure, progress, metadata = view.get("failure"), view.get("progress"), view.get("metadata")
    has_result = view["status"] == Status.COMPLETED and "result" in view
    return Task(
        id=view["id"],
        type=view["type"],
        queue=view["queue"],
        priority=parse_priority(view["priority"]),
        status=Status(view["status"]),
        payload_json=codec.dumps(view.get("payload")),
        metadata_json=codec.dumps(metadata) if metadata else None,
        options_json="{}",
        attempts=view["attempts"],
        max_attempts=view["max_attempts"],
        deaths=view["deaths"],
        version=view["version"],
        fence=view["fence"],
        created_at=time_of(view["created_at"]) or 0.0,
        updated_at=time_of(view["updated_at"]) or 0.0,
        due_at=time_of(view["due_at"]) or 0.0,
        started_at=time_of(view["started_at"]),
        finished_at=time_of(view["finished_at"]),
        node=view["node"],
        lease_until=time_of(view.get("lease_until")),
        result_json=codec.dumps(view["result"]) if has_result else None,
        failure_json=None if failure is None else codec.dumps(failure),
        fingerprint=view.get("fingerprint") or (failure or {}).get("fingerprint"),
        progress_json=None if progress is None else codec.dumps(_given(progress)),
        gate=view["gate"],
        waiting_on=view["waiting_on"],
        idempotency_key=view["idempotency_key"],
        held_by=view["held_by"],
        project=view["project"],
        claim_id=view["claim_id"],
    )


def _given(progress: View) -> View:
    """The fields that a runner has reported: the API fills in the others."""
    return {name: value for name, value in progress.items() if value or name == "done"}


def event(view: View) -> Event:
    project = view.get("project") or ""
    return Event(
        Position.parse(view["position"]),
        view["kind"],
        time_of(view["at"]) or 0.0,
        view["task_id"] or "",
        view["type"] or "",
        view["data"],
        "" if project == "default" else project,
        view["version"] or 0,
    )


def queue(view: View) -> QueueView:
    return msgspec.convert({**view, "paused_at": time_of(view["paused_at"])}, QueueView)


def dead_group(view: View) -> DeadGroup:
    times = {name: time_of(view[name]) for name in ("first_at", "last_at")}
    return msgspec.convert({**view, **times}, DeadGroup)


def schedule(view: View) -> Schedule:
    times = {name: time_of(view[name]) for name in ("next_at", "fired_at")}
    payload_json = codec.dumps(view["payload"])
    fields = {**view, **times, "payload_json": payload_json, "paused": int(view["paused"])}
    fields["priority"] = int(parse_priority(view["priority"]))
    return msgspec.convert(fields, Schedule)


def node(view: View) -> Node:
    times = {name: time_of(view[name]) for name in ("started_at", "seen_at")}
    return msgspec.convert({**view, **times}, Node)
