"""Why a task is not running: one answer with reasons that a person can act on."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core import limit as limits
from holdfast.core.task import ENDED, Status, Task
from holdfast.errors import NotFound
from holdfast.queue.backend import Backend
from holdfast.queue.nodes import live_nodes
from holdfast.store.scripts.limits import to_limit

HOLDERS_MAX: Final = 10


class Reason(msgspec.Struct, frozen=True):
    """One thing in the way. `code` is stable, `text` is for people, `data` for programs."""

    code: str
    text: str
    data: dict[str, Any] = {}


class Why(msgspec.Struct, frozen=True):
    """The task's status and what it waits for; no reasons means that it may start at any moment."""

    task_id: str
    status: Status
    reasons: list[Reason]

    def __str__(self) -> str:
        if not self.reasons:
            return f"{self.task_id} is {self.status}: nothing is in its way"
        return f"{self.task_id} is {self.status}: " + "; ".join(r.text for r in self.reasons)


async def explain(backend: Backend, task_id: str) -> Why:
    task = (await backend.store.get([task_id])).get(task_id)
    if task is None:
        raise NotFound(f"task {task_id} does not exist: check the id; it may have been pruned")
    match task.status:
        case Status.BLOCKED:
            reasons = await _blocked(backend, task)
        case Status.QUEUED:
            reasons = await _queued(backend, task)
        case Status.RUNNING:
            text = f"it runs on {task.node}, attempt {task.attempts} of {task.max_attempts}"
            reasons = [Reason("running", text, {"node": task.node, "attempt": task.attempts})]
        case Status.PAUSED | Status.STUCK:
            reasons = [Reason("paused", f"paused by {task.held_by}", {"by": task.held_by})]
        case _:
            reasons = [_ended(task)]
    return Why(task_id, task.status, reasons)


def _ended(task: Task) -> Reason:
    assert task.status in ENDED
    match task.status:
        case Status.FAILED:
            text = f"it is a dead letter after {task.attempts} attempts: {task.error}; replay it to try again"
            return Reason("dead", text, {"fingerprint": task.fingerprint})
        case _:
            return Reason(task.status.value, f"it has {task.status}", {})


async def _blocked(backend: Backend, task: Task) -> list[Reason]:
    rows = await backend.store.query("dependencies", id=task.id)
    waiting = [row[0] for row in rows if not row[2]]
    parents = await backend.store.get(waiting)
    reasons = []
    for parent_id in waiting:
        parent = parents.get(parent_id)
        status = parent.status.value if parent else "missing"
        reasons.append(
            Reason(
                "dependency",
                f"waits for {parent_id} ({status})",
                {"task_id": parent_id, "status": status},
            )
        )
    return reasons


async def _queued(backend: Backend, task: Task) -> list[Reason]:
    reasons: list[Reason] = []
    now = backend.store.now()
    if task.due_at > now:
        why = "a retry is due" if task.attempts or task.failure_json else "it is due"
        text = f"{why} in {task.due_at - now:.1f} s"
        reasons.append(
            Reason("not-due", text, {"due_at": task.due_at, "seconds": task.due_at - now})
        )
    reasons += await _queue_paused(backend, task)
    reasons += await _no_handler(backend, task)
    if task.limits:
        reasons += await _limits(backend, task, now)
    if not reasons:
        reasons += await _workers_busy(backend, task)
    return reasons


async def _queue_paused(backend: Backend, task: Task) -> list[Reason]:
    for name, paused_at, paused_by, reason in await backend.store.query("queues"):
        if name == task.queue and paused_at is not None:
            text = f"queue '{name}' was paused by {paused_by}" + (f": {reason}" if reason else "")
            return [
                Reason("queue-paused", text, {"queue": name, "by": paused_by, "since": paused_at})
            ]
    return []


async def _no_handler(backend: Backend, task: Task) -> list[Reason]:
    nodes = await live_nodes(backend)
    if any(task.type in node.types and task.queue in node.queues for node in nodes):
        return []
    if any(task.type in node.types for node in nodes):
        text = f"no live node with a handler for '{task.type}' serves queue '{task.queue}'"
        return [Reason("queue-unserved", text, {"type": task.type, "queue": task.queue})]
    text = f"no live node has a handler for '{task.type}': start a worker that registers it"
    return [Reason("no-handler", text, {"type": task.type, "live_nodes": len(nodes)})]


async def _limits(backend: Backend, task: Task, now: float) -> list[Reason]:
    rows = await backend.store.query("get_limits", names=list(task.limit_names))
    reasons = []
    for row in rows:
        limit = to_limit(tuple(row))
        if task.gate != limit.name and limits.permits(limit, now) >= 1:
            continue
        holders = await backend.store.query("limit_holders", name=limit.name, limit=HOLDERS_MAX)
        opens_at = limits.opens_at(limit, now)
        if opens_at is None or limit.rule.rate_count is None:
            held = ", ".join(f"{task_id} on {node}" for task_id, node, _ in holders)
            text = f"limit '{limit.name}' is full ({limits.describe(limit.rule)}); held by {held or 'nobody'}"
            code = "limit-full"
        else:
            seconds = max(0.0, opens_at - now)
            text = f"limit '{limit.name}' ({limits.describe(limit.rule)}) opens in {seconds:.1f} s"
            code = "rate"
        data = {
            "limit": limit.name,
            "holders": [task_id for task_id, _, _ in holders],
            "parked": limit.parked,
            "opens_at": opens_at,
        }
        reasons.append(Reason(code, text, data))
    return reasons


async def _workers_busy(backend: Backend, task: Task) -> list[Reason]:
    counts = await backend.store.counters()
    ahead = sum(
        n
        for queue, _, priority, status, n in counts
        if queue == task.queue and status == Status.QUEUED and priority <= task.priority
    )
    text = (
        f"it waits for a free worker; {max(0, ahead - 1)} tasks of its queue are as urgent or more"
    )
    return [Reason("waiting", text, {"as_urgent_or_more": max(0, ahead - 1)})]
