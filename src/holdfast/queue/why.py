"""Explains why a task is not running, with reasons that an operator can act on.

Promises: the task, its limits, its parents, its queue and the nodes are read at one moment.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core import limit as limits
from holdfast.core.gate import decision_of, is_assigned
from holdfast.core.plural import noun_for
from holdfast.core.task import ENDED, EXTERNAL, Status, Task
from holdfast.errors import NotFound
from holdfast.queue.nodes import Node, nodes_at
from holdfast.store.situation import Situation
from holdfast.store.store import Store

FOR_OPERATORS: Final = (
    "no-handler",
    "project-unserved",
    "queue-unserved",
    "queue-paused",
    "nodes-out-of-service",
)
"""Reasons that do not end by themselves."""
NAMED_MAX: Final = 3
"""Nodes that a reason names."""


class Reason(msgspec.Struct, frozen=True):
    """One reason. `code` is stable, `text` is for people, `data` for programs."""

    code: str
    text: str
    data: dict[str, Any] = {}


class Why(msgspec.Struct, frozen=True):
    """The status of a task and what it waits for. Without reasons it may start at any moment."""

    task_id: str
    status: Status
    reasons: list[Reason]

    def __str__(self) -> str:
        if not self.reasons:
            return f"{self.task_id} is {self.status}: it may start at any moment"
        return f"{self.task_id} is {self.status}: " + "; ".join(r.text for r in self.reasons)


async def explain(store: Store, task_id: str) -> Why:
    view = await store.reads.situation(task_id)
    if view is None:
        raise NotFound(f"task {task_id} does not exist: check the id; it may have been pruned")
    reasons = reasons_of(view)
    if view.task.status is Status.QUEUED and not reasons:
        reasons = [await _workers_busy(store, view.task)]
    return Why(task_id, view.task.status, reasons)


async def hindrance(store: Store, task_id: str) -> str:
    """The reasons as text if only an operator can end them, otherwise ''."""
    why = await explain(store, task_id)
    return str(why) if any(reason.code in FOR_OPERATORS for reason in why.reasons) else ""


def reasons_of(view: Situation) -> list[Reason]:
    """The reasons that follow from the view."""
    task = view.task
    match task.status:
        case Status.BLOCKED:
            parents = [_waits_for(*parent, view) for parent in view.waits_for.items()]
            return [*_on_hold(task), *parents]
        case Status.QUEUED:
            return [
                *(*_on_hold(task), *_assigned(view), *_not_due(view)),
                *(*_queue_paused(view), *_no_handler(view), *_limits_full(view)),
            ] or _turn(view)
        case Status.RUNNING:
            return [_running(view)]
        case Status.STUCK:
            text = f"it runs on {task.node}, but makes no progress: wait, retry it or abort it"
            return [Reason("stuck", text, {"node": task.node, "attempt": task.attempts})]
        case Status.PAUSED:
            return _paused(task)
        case _:
            return [_ended(task)]


def _on_hold(task: Task) -> list[Reason]:
    if task.held_by is None:
        return []
    return [Reason("on-hold", f"held by {task.held_by}: resume it to go on", {"by": task.held_by})]


def _paused(task: Task) -> list[Reason]:
    decision_id = decision_of(task)
    reasons = []
    if decision_id is not None:
        text = f"it waits for decision {decision_id}"
        reasons.append(Reason("decision", text, {"decision_id": decision_id}))
    if task.held_by is not None or decision_id is None:
        reasons.append(Reason("paused", f"paused by {task.held_by}", {"by": task.held_by}))
    return reasons


def _assigned(view: Situation) -> list[Reason]:
    task = view.task
    if not is_assigned(task, view.now):
        return []
    until = task.assigned_until
    ends = "" if until is None else f" for another {until - view.now:.1f} s"
    text = f"it is reserved for node {task.assigned_to}{_unable(view)}{ends}"
    return [Reason("assigned", text, {"node": task.assigned_to, "until": until})]


def _unable(view: Situation) -> str:
    """Why the node that a task is reserved for does not claim it now, as a part of a sentence. Empty: it
    may."""
    task = view.task
    node = next((n for n in nodes_at(view.nodes, view.now) if n.id == task.assigned_to), None)
    if node is None or not node.is_live:
        return ", which is not live,"
    if not node.may_claim:
        return f", which is {node.state},"
    if task.type not in node.types:
        return f", which has no handler for '{task.type}',"
    return "" if task.queue in node.queues else f", which does not serve queue '{task.queue}',"


def _running(view: Situation) -> Reason:
    task = view.task
    attempt = f"attempt {task.attempts} of {task.max_attempts}"
    data: dict[str, Any] = {"node": task.node, "attempt": task.attempts}
    node = next((node for node in nodes_at(view.nodes, view.now) if node.id == task.node), None)
    if node is None:
        heard = ", which no longer reports"
    else:
        seconds = max(0.0, view.now - node.seen_at)
        data["heard_seconds_ago"] = round(seconds, 3)
        heard = f", last heard of {seconds:.0f} s ago"
    text = f"it runs on {task.node}{heard}, {attempt}"
    if node is not None and node.is_live and node.blocked is not None:
        text += f"; the node is alive, but {node.blocked}"
        data["blocked"] = {
            "seconds": round(node.blocked.seconds, 3),
            "by": node.blocked.task_id or None,
        }
    if node is None or not node.is_live:
        text += "; the node may have died: the task returns to the queue when its lease has ended"
    return Reason("running", text, data)


def _ended(task: Task) -> Reason:
    assert task.status in ENDED
    match task.status:
        case Status.FAILED:
            tries = f"{task.attempts} {noun_for(task.attempts, 'attempt')}"
            text = f"it is a dead letter after {tries}: {task.why_ended}; replay it to try again"
            if not task.is_dead:
                text = f"it failed after {tries}: {task.why_ended}; retry its job to try again"
            return Reason("dead", text, {"fingerprint": task.fingerprint})
        case Status.ABORTED:
            return Reason("aborted", f"it was aborted: {task.why_ended}", {"by": task.held_by})
        case _:
            return Reason(task.status.value, f"it has {task.status}", {})


def _waits_for(parent_id: str, status: str, view: Situation) -> Reason:
    data = {"task_id": parent_id, "status": status}
    if parent_id in view.held_ends:
        text = (
            f"{parent_id} has ended ({status}), but another transaction holds this task: it continues when "
            "that transaction has ended; find it in pg_stat_activity"
        )
        return Reason("held", text, data)
    return Reason("dependency", f"waits for {parent_id} ({status})", data)


def _not_due(view: Situation) -> list[Reason]:
    task, seconds = view.task, view.task.due_at - view.now
    if seconds <= 0:
        return []
    why = "a retry is due" if task.attempts or task.failure_json else "it is due"
    data = {"due_at": task.due_at, "seconds": seconds}
    return [Reason("not-due", f"{why} in {seconds:.1f} s", data)]


def _queue_paused(view: Situation) -> list[Reason]:
    for pause in view.pauses:
        if pause.name == view.task.queue and pause.paused_at is not None:
            text = f"queue '{pause.name}' was paused by {pause.paused_by}"
            text += f": {pause.reason}" if pause.reason else ""
            data = {"queue": pause.name, "by": pause.paused_by, "since": pause.paused_at}
            return [Reason("queue-paused", text, data)]
    return []


def _no_handler(view: Situation) -> list[Reason]:
    task = view.task
    nodes = [node for node in nodes_at(view.nodes, view.now) if node.is_live]
    serving = [node for node in nodes if node.serves(task.project)]
    able = [node for node in serving if task.type in node.types and task.queue in node.queues]
    if able:
        return _out_of_service(able)
    if any(task.type in node.types for node in serving):
        text = f"no live node with a handler for '{task.type}' serves queue '{task.queue}'"
        return [Reason("queue-unserved", text, {"type": task.type, "queue": task.queue})]
    able = [node for node in nodes if task.type in node.types]
    others = sorted({name for node in able for name in node.projects or [node.project or ""]})
    if others:
        text = (
            f"no live worker serves project '{task.project}': those with a handler for '{task.type}' serve "
            f"project {', '.join(repr(name) for name in others)}; start one with a token of "
            f"'{task.project}', or with the database and `--project {task.project}`"
        )
        return [Reason("project-unserved", text, {"project": task.project, "served": others})]
    if task.type == EXTERNAL:
        return [Reason("external", "no worker takes it: a node claims it by its id")]
    text = f"no live node has a handler for '{task.type}': start a worker that registers it"
    return [Reason("no-handler", text, {"type": task.type, "live_nodes": len(nodes)})]


def _out_of_service(able: list[Node]) -> list[Reason]:
    """The nodes that could run the task, if an operator has taken all of them out of service."""
    if any(node.may_claim for node in able):
        return []
    names = ", ".join(f"{node.id} ({node.state})" for node in able[:NAMED_MAX])
    more = f" and {len(able) - NAMED_MAX} more" if len(able) > NAMED_MAX else ""
    text = (
        f"the only workers for it are out of service: {names}{more}; put one back with holdfast node "
        "uncordon, or start another"
    )
    return [Reason("nodes-out-of-service", text, {"nodes": {n.id: n.state for n in able}})]


def _limits_full(view: Situation) -> list[Reason]:
    reasons = []
    for limit, holders in view.limits:
        if view.task.gate != limit.name and limits.permits(limit, view.now) >= 1:
            continue
        opens_at = limits.opens_at(limit, view.now)
        title = f"limit '{limit.name}'"
        if opens_at is None or limit.rule.rate_count is None:
            held = ", ".join(f"{holder.task_id} on {holder.node}" for holder in holders)
            text = f"{title} is full ({limits.describe(limit.rule)}); held by {held or 'no running task'}"
            code = "limit-full"
        else:
            seconds = max(0.0, opens_at - view.now)
            text = f"{title} ({limits.describe(limit.rule)}) opens in {seconds:.1f} s"
            code = "rate"
        data = {
            "limit": limit.name,
            "holders": [holder.task_id for holder in holders],
            "parked": limit.parked,
            "opens_at": opens_at,
        }
        reasons.append(Reason(code, text, data))
    return reasons


def _turn(view: Situation) -> list[Reason]:
    """Of a task that waits for a free worker only, if its type is fair."""
    if view.place is None:
        return []
    key, ahead, keys, round_ = view.place
    whose = f"of its key '{key}'" if key else "of the tasks without a key"
    text = (
        f"it waits for the turn {whose}: {ahead} of its tasks are ahead, and {keys} keys take turns, which "
        f"start {round_} tasks in a round"
    )
    return [Reason("turn", text, {"key": key, "ahead": ahead, "keys": keys, "round": round_})]


async def _workers_busy(store: Store, task: Task) -> Reason:
    # `counters` writes, so it is not part of the view. It gives the length of the line only.
    counts = await store.feed.counters()
    ahead = sum(
        n
        for queue, _, priority, status, n in counts
        if queue == task.queue and status == Status.QUEUED and priority <= task.priority
    )
    text = (
        f"it waits for a free worker; {max(0, ahead - 1)} tasks of its queue are as urgent or more"
    )
    return Reason("waiting", text, {"as_urgent_or_more": max(0, ahead - 1)})
