"""Limits inside a transaction: taking permits, giving them back, letting the next ones in.

Promises: the row of a limit is locked while it is judged, so the count is exact across processes; a task
that is refused is parked at the limit, out of the way of all others, and costs nothing until it opens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from holdfast.core import codec, limit as rules
from holdfast.core.decide import Transition, left_running
from holdfast.core.limit import Limit, Rule
from holdfast.core.task import Status, Task
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import Work

UNPARK_MAX = 100

Limits = dict[str, Limit]


def lock(names: Iterable[str]) -> Script[Limits]:
    wanted = sorted(set(names))
    if not wanted:
        return {}
    rows = yield call("lock_limits", names=wanted)
    return {row[0]: to_limit(row) for row in rows}


def lock_of(tasks: Sequence[Task]) -> Script[Limits]:
    """The limits of these tasks; one that was forgotten while nobody used it comes back."""
    limits = yield from lock(name for task in tasks for name in task.limit_names)
    missing = {
        name: rule
        for task in tasks
        if not limits.keys() >= set(task.limit_names)
        for name, rule in task.options.rules
        if name not in limits
    }
    if missing:
        rows = [(name, codec.dumps(rule)) for name, rule in sorted(missing.items())]
        yield call_rows("ensure_limits", rows)
        limits |= yield from lock(missing)
    return limits


def to_limit(row: tuple[str, str, int, int, float]) -> Limit:
    name, rule_json, running, parked, full_until = row
    return Limit(name, _rule(rule_json), running, parked, full_until)


def _rule(rule_json: str) -> Rule:
    fields = codec.loads_object(rule_json)
    return Rule(**fields)


def save(limits: Limits, now: float) -> Script[None]:
    rows = [
        (x.name, x.running, x.parked, x.full_until, rules.opens_at(x, now) if x.parked else None)
        for x in limits.values()
    ]
    if rows:
        yield call_rows("write_limits", rows)


def admit(task: Task, limits: Limits, now: float) -> str | None:
    """Takes a permit of each limit of the task, or of none: then the name of the one that is full."""
    held = [limits[name] for name in task.limit_names if name in limits]
    for limit in held:
        if rules.permits(limit, now) < 1:
            return limit.name
    for limit in held:
        limits[limit.name] = rules.take(limit, now)
    return None


def park(work: Work, task: Task, name: str, limits: Limits) -> None:
    """Out of the ready index; no attempt is spent."""
    after = replace(task, gate=name, version=task.version + 1, updated_at=work.now)
    work.move(Transition(task, after, ()))
    limits[name] = replace(limits[name], parked=limits[name].parked + 1)


def give_back(work: Work) -> Script[None]:
    """After everything else was decided: what left its limits frees them, and the next ones come in."""
    moved = [t for t in work.transitions if t.before.limits]
    ended = [t.before for t in moved if left_running(t)]
    unparked = [t.before for t in moved if _left_gate(t)]
    names = {name for task in ended for name in task.limit_names}
    limits = yield from lock(names | {task.gate for task in unparked if task.gate})
    for task in ended:
        for name in task.limit_names:
            if name in limits:
                limits[name] = replace(limits[name], running=max(0, limits[name].running - 1))
    for task in unparked:
        if task.gate in limits:
            limit = limits[task.gate]
            limits[task.gate] = replace(limit, parked=max(0, limit.parked - 1))
    yield from let_in(work, limits)
    yield from save(limits, work.now)


def _left_gate(transition: Transition) -> bool:
    """A parked task that was ended by somebody."""
    return transition.before.gate is not None and transition.after.status is not Status.QUEUED


def let_in(work: Work, limits: Limits) -> Script[int]:
    """Parked tasks back into the ready index, as many as there are permits."""
    opened = 0
    for name, limit in limits.items():
        free = min(rules.permits(limit, work.now), UNPARK_MAX)
        wanted = min(limit.parked, math.floor(free))
        if wanted < 1:
            continue
        tasks: list[Task] = yield call("parked_tasks", gate=name, limit=wanted)
        tasks = [task for task in tasks if task.id not in work.seen]
        work.load(tasks)
        for task in tasks:
            after = replace(task, gate=None, version=task.version + 1, updated_at=work.now)
            work.move(Transition(task, after, ()))
        limits[name] = replace(limit, parked=max(0, limit.parked - len(tasks)))
        opened += len(tasks)
    return opened
