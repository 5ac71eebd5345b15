"""The laws that a run is judged by. Each returns complaints."""

from __future__ import annotations

import json
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from holdfast.core.event import Event
from holdfast.core.event_kinds import EventClass, class_of
from proof.hub.app import journal
from proof.hub.evidence import Evidence, Seen, expected

Law = Callable[[Evidence], Iterator[str]]
ENDS = frozenset({"task.completed", "task.aborted", "task.dead"})
REVIVALS = frozenset({"task.replayed", "task.revived", "task.forced"})
SHOWN_MAX = 5


def came_to_rest(evidence: Evidence) -> Iterator[str]:
    yield from evidence.complaints


def watchers_saw_each_event_once(evidence: Evidence) -> Iterator[str]:
    """In order, compared with the feed of the store."""
    seen = evidence.seen()
    for report in evidence.reports.values():
        yield from (f"{name} ended: {error}" for name, error in report["errors"].items())
    for watcher in evidence.watchers:
        events = expected(evidence.events, watcher)
        items = seen.get(watcher.name, [])
        yield from (f"{watcher.name}: {text}" for text in _watched(events, items))


def _watched(events: list[Event], items: list[Seen]) -> Iterator[str]:
    yield from (f"a reset at {item.offset}" for item in items if item.type == "reset")
    snapshots = [item.offset for item in items if item.type == "snapshot" and item.last]
    if len(snapshots) > 1:
        yield f"{len(snapshots)} snapshots"
    end = events[-1].position.offset if events else 0
    events = [event for event in events if event.position.offset > max(snapshots, default=0)]
    shown = [item for item in items if item.type not in ("snapshot", "reset")]
    offsets = [item.offset for item in shown]
    for before, after in pairwise(offsets):
        if after <= before:
            yield f"offset {after} after {before}"
    exact = {e.position.offset: e.kind for e in events if not _is_merged(e)}
    got = {item.offset for item in shown}
    for offset in [offset for offset in exact if offset not in got][:SHOWN_MAX]:
        yield f"never saw {exact[offset]} at {offset}"
    known = {event.position.offset for event in events}
    for item in [i for i in shown if i.offset not in known and i.offset <= end][:SHOWN_MAX]:
        yield f"saw {item.kind} at {item.offset}, which is not of its subscription"
    merged = Counter(event.kind for event in events if _is_merged(event))
    for item in shown:
        if item.kind is not None and item.kind in merged and item.offset <= end:
            merged[item.kind] -= item.merged
    yield from (f"{left} of {kind} are missing" for kind, left in merged.items() if left)


def _is_merged(event: Event) -> bool:
    return class_of(event) is EventClass.INFORMATIONAL


def all_reconnects_happened(evidence: Evidence) -> Iterator[str]:
    resets = sum(report["resets"] for report in evidence.reports.values())
    if resets < evidence.plan.reconnects:
        yield f"{resets} connections were reset, not {evidence.plan.reconnects}"


def one_effective_runner(evidence: Evidence) -> Iterator[str]:
    """No fence runs in two processes, and the result is that of the fence that ended the task."""
    starts: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    ends: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for line in journal(evidence.folder / "journal"):
        {"start": starts, "end": ends}[line.word][line.task_id, line.fence].append(line.pid)
    for (task_id, fence), pids in starts.items():
        if len(pids) > 1:
            yield f"{task_id} ran {len(pids)} times under fence {fence}"
    for row in evidence.tasks:
        if row["project"] == "default" and row["status"] == "completed":
            result = json.loads(row["result_json"])
            if ends[row["id"], result["fence"]] != [result["pid"]]:
                yield f"{row['id']} has a result that no run of fence {result['fence']} made"
            late = [fence for task, fence in starts if task == row["id"] and fence > row["fence"]]
            if late:
                yield f"{row['id']} ran under fence {late[0]}, above {row['fence']} of its row"


def every_task_ended_once(evidence: Evidence) -> Iterator[str]:
    """Each acknowledged key has one task. Each task has one end, unless an operator revived it."""
    ids = {row["id"]: row for row in evidence.tasks}
    for key, names in evidence.answers.items():
        if len(names) != 1:
            yield f"{key} was answered with {len(names)} tasks"
        yield from (f"{key}: task {name} is lost" for name in names if name not in ids)
    owners = Counter(name for names in evidence.answers.values() for name in names)
    yield from (f"task {name} has {n} keys" for name, n in owners.items() if n > 1)
    ends: defaultdict[str, int] = defaultdict(int)
    finals: dict[str, str] = {}
    for event in evidence.events:
        if event.kind in ENDS:
            if finals.get(event.task_id) in ("task.completed", "task.aborted"):
                yield f"{event.task_id}: {event.kind} after {finals[event.task_id]}"
            # An operator may abort a dead letter: it had one end, and has another now.
            is_discarded = event.kind == "task.aborted" and event.task_id in finals
            ends[event.task_id] += 0 if is_discarded else 1
            finals[event.task_id] = event.kind
        elif event.kind in REVIVALS:
            ends[event.task_id] -= 1 if finals.get(event.task_id) else 0
            finals.pop(event.task_id, None)
        elif event.kind == "task.started" and event.task_id in finals:
            yield f"{event.task_id} started after {finals[event.task_id]}"
    for row in evidence.tasks:
        if row["project"] == "default" and ends[row["id"]] != 1:
            yield f"{row['id']} ({row['status']}) has {ends[row['id']]} ends"


def interventions_once(evidence: Evidence) -> Iterator[str]:
    issued: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for event in evidence.events:
        name = event.data.get("intervention_id")
        if event.kind == "intervention.issued":
            issued[str(name)] += 1
        elif event.kind in (
            "intervention.applied",
            "intervention.refused",
            "intervention.expired",
        ):
            ended[str(name)] += 1
    yield from (f"{name} was issued {n} times" for name, n in issued.items() if n != 1)
    yield from (f"{name} ended {n} times" for name, n in ended.items() if n != 1)
    yield from (f"{name} is lost" for name in evidence.interventions if not issued[name])
    yield from (f"{name} has no end" for name in issued if not ended[name])


def requests_get_typed_answers(evidence: Evidence) -> Iterator[str]:
    yield from evidence.unexpected


def replicas_are_equal(evidence: Evidence) -> Iterator[str]:
    """All nodes and a node that starts empty have the same tasks, and no change is lost."""
    *nodes, fresh = evidence.replicas
    for node in nodes:
        if node.pending:
            yield f"{node.name} has {node.pending} changes that the server did not answer"
        for name in sorted(node.tasks.keys() | fresh.tasks.keys()):
            if node.tasks.get(name) != fresh.tasks.get(name):
                yield f"{node.name} has another {name} than the server"
        for made in node.made:
            labels = fresh.tasks.get(made.task_id, {}).get("labels") or []
            if made.label not in node.refused and made.label not in labels:
                yield f"{node.name}: change {made.label} of {made.task_id} is lost"


def audit_verifies(evidence: Evidence) -> Iterator[str]:
    if evidence.audit:
        yield evidence.audit


def processes_end_only_when_asked(evidence: Evidence) -> Iterator[str]:
    """No process dies by itself, and a graceful stop ends with success."""
    for kept in evidence.processes:
        if kept.deaths:
            yield f"{kept.name} ended by itself with {kept.deaths}"
        yield from (f"{kept.name}: a stop took {seconds} s" for seconds in kept.slow_stops)
        for seconds, code in kept.stops:
            if code not in (0, -signal.SIGKILL):
                yield f"{kept.name}: a stop of {seconds:.1f} s ended with {code}"


LAWS: dict[str, Law] = {
    "everything comes to rest": came_to_rest,
    "each event once and in order, for every watcher": watchers_saw_each_event_once,
    "the connections were reset": all_reconnects_happened,
    "one effective runner per fence": one_effective_runner,
    "each task once per key, ended once": every_task_ended_once,
    "an intervention is applied at most once": interventions_once,
    "no request gets an unknown error": requests_get_typed_answers,
    "all replicas are equal, no change is lost": replicas_are_equal,
    "the audit chain verifies": audit_verifies,
    "processes end only when asked": processes_end_only_when_asked,
}


def judge(evidence: Evidence) -> dict[str, list[str]]:
    """The complaints of each law."""
    return {name: list(law(evidence)) for name, law in LAWS.items()}
