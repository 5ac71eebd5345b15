"""Limits inside a transaction: taking permits, giving them back, letting the next ones in.

Promises: the row of a limit is locked while it is judged, so the count is exact across processes; a task
that is refused is parked at the limit, out of the way of all others, and costs nothing until it opens; a task
that comes later does not take its turn. Only transactions of our own lock a limit, for a few
statements; who takes tasks in or claims them does not wait even for those.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.core import codec, limit as rules
from holdfast.core.claiming import HELD_SECONDS
from holdfast.core.decide import Transition, left_running
from holdfast.core.limit import Limit, LimitRule
from holdfast.core.task import Status, Task
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import Work

UNPARK_MAX: Final = 100

Limits = dict[str, Limit]


def lock(names: Iterable[str], *, wait: bool = True) -> Script[Limits]:
    """These limits; without `wait`, those of them that are free."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    rows = yield call("lock_limits" if wait else "lock_free_limits", names=wanted)
    return {row[0]: to_limit(row) for row in rows}


def lock_of(tasks: Sequence[Task], *, wait: bool) -> Script[Limits]:
    """The limits of these tasks under the rules of the youngest. With `wait`, one that is new, or that was
    forgotten while no task used it, is made; without, those that are there and free."""
    names = _names_of(tasks)
    limits = yield from lock(names, wait=wait)
    if wait and len(limits) < len(names):
        missing = {
            name: (rule, task.created_at)
            for task in tasks
            for name, rule in task.options.rules
            if name not in limits
        }
        rows = [(name, codec.dumps(rule), at) for name, (rule, at) in sorted(missing.items())]
        yield call_rows("ensure_limits", rows)
        limits |= yield from lock(missing)
    _rule_by_all(limits, tasks)
    return limits


def _names_of(tasks: Iterable[Task]) -> set[str]:
    """Tasks of a type share their limits: each text is split once."""
    kinds = {task.limits: task for task in tasks}
    return {name for task in kinds.values() for name in task.limit_names}


def _rule_by_all(limits: Limits, tasks: Sequence[Task]) -> None:
    """Tasks of a type share their options: those whose rules are in force need no second look."""
    in_force: set[str] = set()
    for task in tasks:
        if task.options_json in in_force:
            continue
        if rule_by(limits, task):
            in_force.clear()
        said = [(limits[name].rule, rule) for name, rule in task.options.rules if name in limits]
        if all(rule == wanted for rule, wanted in said):
            in_force.add(task.options_json)


def rule_by(limits: Limits, task: Task, *, is_new: bool = False) -> bool:
    """Puts the task's rules in force where they are the youngest; whether any rule changed."""
    changed = False
    for name, rule in task.options.rules if task.limits else ():
        if (limit := limits.get(name)) is not None:
            limits[name] = rules.with_rule(limit, rule, task.created_at, is_new=is_new)
            changed = changed or limits[name] is not limit
    return changed


def to_limit(row: Sequence[Any]) -> Limit:
    """Of a row of `lock_limits` or `get_limits`."""
    name, rule_json, running, parked, full_until, look_at, rule_at, *head = row
    place = (head[0], head[1]) if head and head[0] is not None else None
    return Limit(name, _rule(rule_json), running, parked, full_until, look_at, rule_at, place)


def _rule(rule_json: str) -> LimitRule:
    fields = codec.loads_object(rule_json)
    return LimitRule(**fields)


def save(limits: Limits, now: float) -> Script[None]:
    rows = [
        (
            x.name,
            codec.dumps(x.rule),
            x.running,
            x.parked,
            x.full_until,
            rules.next_look(x, now),
            x.rule_at,
        )
        for x in limits.values()
    ]
    if rows:
        yield call_rows("write_limits", rows)


class Admission:
    """Whose turn it is at some limits: tasks in line, and those parked there before them."""

    __slots__ = ("_heads", "_kept", "_limits", "_work", "let_in")

    def __init__(self, work: Work, limits: Limits, heads: dict[str, list[Task]]) -> None:
        self._work = work
        self._limits = limits
        self._heads = heads
        self._kept: dict[str, int] = {}
        self.let_in = 0
        """Parked tasks that came before one that was asked for."""

    def admit(self, task: Task) -> str | None:
        """Takes a permit of each limit of the task, or of none: then the name of the one that is full.
        Parked tasks whose turn is earlier are let in, and a permit is left for each."""
        limits, now = self._limits, self._work.now
        held = [limits[name] for name in task.limit_names if name in limits]
        if self._heads:
            for limit in held:
                self._let_in_before(task, limit.name)
        for limit in held:
            kept = self._kept.get(limit.name, 0) if self._kept else 0
            if rules.permits(limit, now) - kept < 1:
                return limit.name
        for limit in held:
            limits[limit.name] = rules.take(limits[limit.name], now)
        return None

    def _let_in_before(self, task: Task, name: str) -> None:
        heads = self._heads.get(name, [])
        while heads and _place(heads[0]) < _place(task):
            self._limits[name] = unpark(self._work, [heads.pop(0)], self._limits[name])
            self._kept[name] = self._kept.get(name, 0) + 1
            self.let_in += 1


def _place(task: Task) -> tuple[int, float]:
    return task.priority, task.due_at


def turns_of(work: Work, tasks: Sequence[Task], limits: Limits) -> Script[Admission]:
    """Reads who is parked before some of these, at limits that have permits."""
    heads: dict[str, list[Task]] = {}
    free = {name: rules.permits(limit, work.now) for name, limit in limits.items() if limit.head}
    places: dict[str, list[tuple[int, float]]] = {n: [] for n, found in free.items() if found >= 1}
    if places:
        for task in tasks:
            for name in task.limit_names:
                if name in places:
                    places[name].append(_place(task))
    for name, asking in places.items():
        limit = limits[name]
        wanted = min(limit.parked, free[name], len(asking), UNPARK_MAX)
        if wanted >= 1 and limit.head is not None and limit.head < max(asking):
            parked: list[Task] = yield call("parked_tasks", gate=name, limit=math.floor(wanted))
            work.load(parked)
            heads[name] = parked
    return Admission(work, limits, heads)


def park(work: Work, task: Task, name: str, limits: Limits) -> None:
    """Out of the ready index; no attempt is spent."""
    after = replace(task, gate=name, version=task.version + 1, updated_at=work.now)
    work.move(Transition(task, after, ()))
    limits[name] = replace(limits[name], parked=limits[name].parked + 1)


def unpark(work: Work, tasks: Sequence[Task], limit: Limit) -> Limit:
    """Back into the ready index; the limit without them."""
    for task in tasks:
        after = replace(task, gate=None, version=task.version + 1, updated_at=work.now)
        work.move(Transition(task, after, ()))
    return replace(limit, parked=max(0, limit.parked - len(tasks)))


def give_back(work: Work) -> Script[None]:
    """After everything else was decided: what left its limits frees them, and the next ones come in."""
    moved = [t for t in work.transitions if t.before.limits]
    ended = [t.before for t in moved if left_running(t)]
    unparked = [t.before for t in moved if _left_gate(t)]
    limits = yield from lock(_names_of(ended) | {task.gate for task in unparked if task.gate})
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
    """A parked task that was ended by an operator."""
    return transition.before.gate is not None and transition.after.status is not Status.QUEUED


def let_in(work: Work, limits: Limits) -> Script[int]:
    """Parked tasks back into the ready index, as many as there are permits. Those that another transaction
    holds are looked for again soon."""
    known = Counter(task.gate for task in work.tasks.values())
    known += Counter(t.before.gate for t in work.transitions)
    opened = 0
    for name, limit in list(limits.items()):
        free = min(rules.permits(limit, work.now), UNPARK_MAX)
        wanted = min(limit.parked, math.floor(free))
        if wanted < 1:
            continue
        # What this transaction has read or moved is still parked as far as the database knows.
        found: list[Task] = yield call("parked_tasks", gate=name, limit=wanted + known[name])
        tasks = [task for task in found if task.id not in work.seen][:wanted]
        work.load(tasks)
        pause = rules.LET_IN_SECONDS if len(tasks) == wanted else HELD_SECONDS
        limits[name] = replace(unpark(work, tasks, limit), look_at=work.now + pause)
        opened += len(tasks)
    return opened
