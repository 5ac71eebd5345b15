"""Laws about gateways and their clients: watchers, remote workers, offline nodes, operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.core.event import Event
from holdfast.core.event_kinds import (
    SYSTEM_ADMIN,
    SYSTEM_EVENTS,
    EventClass,
    class_of,
    topics_of,
)
from holdfast.sim.hub_history import Shown, Watched
from holdfast.sim.outcome import Outcome
from holdfast.sim.server import RUN

PROGRESS: Final = "task.progress"
SNAPSHOT: Final = "snapshot"
RESET: Final = "reset"
TERMINAL: Final = frozenset({"applied", "refused", "expired"})


def watchers_see_each_event_once(outcome: Outcome) -> Iterator[str]:
    """In order, none twice and none skipped, from the snapshot on. Informational ones may be merged."""
    history = outcome.record.hub
    for watched in history.watched:
        yield from _out_of_order(watched, outcome.events)
        for missing in unshown(watched, outcome.events, history.watched_through)[:1]:
            yield f"{watched.name} at {watched.channel} did not show {missing.position} {missing.kind}"


def _out_of_order(watched: Watched, events: Sequence[Event]) -> Iterator[str]:
    matching = {event.position.offset: event for event in _matching(watched.channel, events)}
    last = 0
    for n, shown in enumerate(watched.shown):
        before = watched.shown[n - 1].kind if n else RESET
        if shown.kind == RESET:
            continue
        if (shown.kind == SNAPSHOT) != (before == RESET):
            yield f"{watched.name} showed {shown.kind} after {before}"
        if shown.kind == SNAPSHOT:
            last = shown.offset
            continue
        event = matching.get(shown.offset)
        if shown.offset <= last:
            yield f"{watched.name} showed {shown.offset} after {last}"
        elif event is None or event.kind != shown.kind:
            yield f"{watched.name} showed {shown.kind} at {shown.offset}, which is not in its channel"
        last = shown.offset


def unshown(watched: Watched, events: Sequence[Event], through: int) -> list[Event]:
    """The events that a watcher has not shown and must have, up to this offset."""
    spans = list(_spans(watched.shown, through))
    offsets = {shown.offset for shown in watched.shown}
    return [
        event
        for event in _matching(watched.channel, events)
        if class_of(event) is not EventClass.INFORMATIONAL
        and event.position.offset not in offsets
        and any(after < event.position.offset <= until for after, until in spans)
    ]


def _spans(shown: Sequence[Shown], through: int) -> Iterator[tuple[int, int]]:
    """(after, until) of what the watcher follows: from a snapshot to the next reset, or to the end. Without
    a snapshot it has seen nothing."""
    begun: int | None = None
    last = 0
    for item in shown:
        if item.kind == SNAPSHOT:
            begun = item.offset
        elif item.kind == RESET and begun is not None:
            yield begun, last
            begun = None
        last = max(last, item.offset)
    yield (0 if begun is None else begun), through


def _matching(channel: str, events: Sequence[Event]) -> Iterator[Event]:
    topics = {channel, SYSTEM_ADMIN} if channel == SYSTEM_EVENTS else {channel}
    return (event for event in events if not topics.isdisjoint(topics_of(event)))


def reports_apply_once(outcome: Outcome) -> Iterator[str]:
    """Each report of a remote run has another value: none is applied twice, and no acknowledged one is
    missing."""
    applied = Counter(
        (event.task_id, value)
        for event in outcome.events
        if event.kind == PROGRESS and (value := value_of(event)) is not None
    )
    for (task_id, value), n in applied.items():
        if n > 1:
            yield f"the report {value} of {task_id} was applied {n} times"
    for report in outcome.record.hub.reported:
        if (report.task_id, report.value) not in applied:
            yield f"the report {report.value} of {report.task_id} was acknowledged and is missing"


def stale_runners_have_no_effect(outcome: Outcome) -> Iterator[str]:
    """A report counts only for the run that has the task: a row of the same version names its fence."""
    fences = {(change.id, change.version): change for change in outcome.history}
    for event in outcome.events:
        value = value_of(event) if event.kind == PROGRESS else None
        change = fences.get((event.task_id, event.version))
        if value is None or change is None:
            continue
        if change.fence != fence_of(value) or change.status not in RUN:
            yield (
                f"a report of fence {fence_of(value)} changed {event.task_id}, "
                f"which was {change.status} at fence {change.fence}"
            )


def value_of(event: Event) -> float | None:
    """The value of a report that names its run."""
    progress: Any = event.data.get("progress")
    note = progress.get("note") if isinstance(progress, dict) else None
    value = float(progress["done"]) if note == NOTE else VALUE_MAX
    return value if value < VALUE_MAX else None


NOTE: Final = "remote"
"""The note of reports whose value names the run."""
SCALE: Final = 100_000
VALUE_MAX: Final = 0.1


def report_value(fence: int, n: int) -> float:
    """The value of the n-th report of a run."""
    return (fence * 10 + n) / SCALE


def fence_of(value: float) -> int:
    return round(value * SCALE) // 10


def replicas_equal_the_server(outcome: Outcome) -> Iterator[str]:
    """At quiescence every offline node has the server's tasks, and has no change left to push."""
    history = outcome.record.hub
    for replica in history.replicas:
        if replica.pending:
            yield f"{replica.node} has {replica.pending} changes that the server has not answered"
        for name in sorted(replica.states.keys() | history.truth.keys()):
            if replica.states.get(name) != history.truth.get(name):
                states = replica.states.get(name), history.truth.get(name)
                yield f"{name} at {replica.node} is {states[0]}, the server has {states[1]}"


def interventions_reach_an_end(outcome: Outcome) -> Iterator[str]:
    """A repeated request gets the same intervention, and each has ended at quiescence."""
    history = outcome.record.hub
    for answer in history.intervened:
        if answer.id != answer.answered_id:
            yield f"{answer.kind} {answer.id} of {answer.task_id} was answered with {answer.answered_id}"
    for ladder in history.ladders:
        if ladder.state not in TERMINAL:
            yield f"intervention {ladder.id} is still {ladder.state}"


def decisions_are_answered_once(outcome: Outcome) -> Iterator[str]:
    """Every operator that answered a decision got the same choice."""
    for decision_id, choices in outcome.record.hub.answered.items():
        if len(set(choices)) > 1:
            yield f"decision {decision_id} was answered with {sorted(set(choices))}"
