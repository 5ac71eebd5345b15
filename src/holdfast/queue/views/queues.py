"""Queues, groups of dead letters and schedules in JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.client import admin_models as models
from holdfast.core import codec
from holdfast.core.priority import parse as parse_priority
from holdfast.core.schedule import Schedule
from holdfast.core.task import Priority
from holdfast.core.wire import time_text
from holdfast.queue.dead_letters import DeadGroup
from holdfast.queue.queues import QueueView
from holdfast.queue.views.values import View, at, known_time, parsed, shown, time_of
from holdfast.store.rows import KeyWeight


def queue(of: QueueView) -> View:
    return shown(models.QueueView(**{**msgspec.structs.asdict(of), "paused_at": at(of.paused_at)}))


def read_queue(view: View) -> QueueView:
    given = msgspec.structs.asdict(parsed(view, models.QueueView))
    return QueueView(**{**given, "paused_at": time_of(given["paused_at"])})


def key_weight(of: KeyWeight) -> View:
    return shown(
        models.KeyWeightView(key=of.key, weight=of.weight, set_by=of.set_by, set_at=at(of.set_at))
    )


def read_key_weight(view: View) -> KeyWeight:
    given = parsed(view, models.KeyWeightView)
    return KeyWeight(given.key, given.weight, given.set_by, known_time(given.set_at))


def dead_group(of: DeadGroup) -> View:
    times = {"first_at": at(of.first_at), "last_at": at(of.last_at)}
    return shown(models.DeadGroup(**{**msgspec.structs.asdict(of), **times}))


def read_dead_group(view: View) -> DeadGroup:
    given = msgspec.structs.asdict(parsed(view, models.DeadGroup))
    times = {name: known_time(given[name]) for name in ("first_at", "last_at")}
    return DeadGroup(**{**given, **times})


def schedule(of: Schedule, upcoming: Sequence[float] = ()) -> View:
    """A schedule. `upcoming`: its next firings, for one alone."""
    return shown(
        models.ScheduleView(
            name=of.name,
            spec=of.spec,
            timezone=of.timezone,
            type=of.type,
            payload=codec.loads(of.payload_json),
            queue=of.queue,
            priority=Priority(of.priority).name.lower(),
            next_at=at(of.next_at),
            fired_at=at(of.fired_at),
            paused=bool(of.paused),
            owner=of.owner,
            project=of.project,
            version=of.version,
            upcoming=[time_text(each) for each in upcoming],
        )
    )


def read_schedule(view: View) -> Schedule:
    given = parsed(view, models.ScheduleView)
    return Schedule(
        name=given.name,
        type=given.type,
        queue=given.queue or "",
        spec=given.spec,
        timezone=given.timezone,
        payload_json=codec.dumps(given.payload),
        priority=int(parse_priority(given.priority or "normal")),
        next_at=known_time(given.next_at),
        fired_at=time_of(given.fired_at),
        paused=int(given.paused),
        owner=given.owner,
        project=given.project,
        version=given.version,
    )
