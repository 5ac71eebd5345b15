"""Limits inside a transaction: takes permits, returns them, parks and unparks tasks.

Promises: the row of a limit is locked while it is checked, so counts are exact across processes. A refused
task is parked: it leaves the ready index until the limit opens, and later tasks do not overtake it. Only
short store transactions lock a limit. Enqueueing skips a limit that is locked; a claim skips it or waits
briefly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.core import codec, limit as rules
from holdfast.core.claiming import HELD_RETRY_SECONDS
from holdfast.core.decide import Transition, left_running
from holdfast.core.gate import gate_of, is_limit, without_preference
from holdfast.core.limit import Limit, LimitRule
from holdfast.core.task import Status, Task
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import turns
from holdfast.store.scripts.work import Work

UNPARK_MAX: Final = 100
"""At most this many tasks of one limit are unparked at once."""

Limits = dict[str, Limit]


def lock(names: Iterable[str], *, wait: bool = True) -> Script[Limits]:
    """Locks these limits. Without `wait`, skips those that another transaction holds."""
    distinct = sorted(set(names))
    if not distinct:
        return {}
    rows = yield call("lock_limits" if wait else "lock_free_limits", names=distinct)
    return {row[0]: to_limit(row) for row in rows}


def lock_of(tasks: Sequence[Task], *, wait: bool) -> Script[Limits]:
    """Locks the limits of these tasks and applies the rules of the youngest task. With `wait`, creates limits
    that do not exist or were pruned while unused. Without, returns only existing limits that are not held."""
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
    """The limit names of these tasks. Tasks of a type share one text, so each distinct text is split once."""
    kinds = {task.limits: task for task in tasks}
    return {name for task in kinds.values() for name in task.limit_names}


def _rule_by_all(limits: Limits, tasks: Sequence[Task]) -> None:
    """Applies the rules of all tasks. Tasks of a type share their options, so options whose rules are already
    in force are skipped."""
    in_force: set[str] = set()
    for task in tasks:
        if task.options_json in in_force:
            continue
        if rule_by(limits, task):
            in_force.clear()
        pairs = [(limits[name].rule, rule) for name, rule in task.options.rules if name in limits]
        if all(current == own for current, own in pairs):
            in_force.add(task.options_json)


def rule_by(limits: Limits, task: Task, *, is_new: bool = False) -> bool:
    """Applies the task's rules to limits whose rule is older. Returns whether any limit changed."""
    changed = False
    for name, rule in task.options.rules if task.limits else ():
        if (limit := limits.get(name)) is not None:
            limits[name] = rules.with_rule(limit, rule, task.created_at, is_new=is_new)
            changed = changed or limits[name] is not limit
    return changed


def to_limit(row: Sequence[Any]) -> Limit:
    """Builds a limit from a row of `lock_limits` or `get_limits`."""
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
    """Admits candidates at limits, in order with the tasks that are parked there."""

    __slots__ = ("_heads", "_limits", "_reserved", "_work", "let_in")

    def __init__(self, work: Work, limits: Limits, heads: dict[str, list[Task]]) -> None:
        self._work = work
        self._limits = limits
        self._heads = heads
        self._reserved: dict[str, int] = {}
        self.let_in = 0
        """Tasks that were unparked because they precede a candidate."""

    def admit(self, task: Task) -> str | None:
        """Takes one permit from every limit of the task, or from none. Returns the name of a full limit, or
        None. Parked tasks that precede the task are unparked, and a permit is reserved for each."""
        limits, now = self._limits, self._work.now
        held = [limits[name] for name in task.limit_names if name in limits]
        if self._heads:
            for limit in held:
                self._let_in_before(task, limit.name)
        for limit in held:
            reserved = self._reserved.get(limit.name, 0) if self._reserved else 0
            if rules.permits(limit, now) - reserved < 1:
                return limit.name
        for limit in held:
            limits[limit.name] = rules.take(limits[limit.name], now)
        return None

    def _let_in_before(self, task: Task, name: str) -> None:
        heads = self._heads.get(name, [])
        while heads and not _is_in_turn(task, name) and _place(heads[0]) < _place(task):
            self._limits[name] = unpark(self._work, [heads.pop(0)], self._limits[name])
            self._reserved[name] = self._reserved.get(name, 0) + 1
            self.let_in += 1


def _is_in_turn(task: Task, name: str) -> bool:
    """Whether the keys of the task's type take turns at the limit. Then a parked task does not precede
    another by its due time."""
    return task.fair_key is not None and not rules.is_of_key(name)


def _place(task: Task) -> tuple[int, float]:
    return task.priority, task.due_at


def admission_of(work: Work, tasks: Sequence[Task], limits: Limits) -> Script[Admission]:
    """Reads the tasks that are parked ahead of these candidates, at limits with permits."""
    heads: dict[str, list[Task]] = {}
    free = {name: rules.permits(limit, work.now) for name, limit in limits.items() if limit.head}
    places: dict[str, list[tuple[int, float]]] = {
        n: [] for n, permits in free.items() if permits >= 1
    }
    if places:
        for task in tasks:
            for name in task.limit_names:
                if name in places and not _is_in_turn(task, name):
                    places[name].append(_place(task))
    for name, asking in places.items():
        limit = limits[name]
        most = min(limit.parked, free[name], len(asking), UNPARK_MAX)
        if most >= 1 and limit.head is not None and limit.head < max(asking):
            parked: list[Task] = yield call("parked_tasks", gate=name, limit=math.floor(most))
            work.load(parked)
            heads[name] = parked
    return Admission(work, limits, heads)


def park(work: Work, task: Task, name: str, limits: Limits) -> None:
    """Parks a task: it leaves the ready index. No attempt is counted."""
    version = task.version + 1
    after = replace(without_preference(task), gate=name, version=version, updated_at=work.now)
    work.move(Transition(task, after, ()))
    limits[name] = replace(limits[name], parked=limits[name].parked + 1)


def unpark(work: Work, tasks: Sequence[Task], limit: Limit) -> Limit:
    """Moves parked tasks back to the ready index. Returns the limit with its new count."""
    for task in tasks:
        gate = gate_of(task, work.now)
        after = replace(task, gate=gate, version=task.version + 1, updated_at=work.now)
        work.move(Transition(task, after, ()))
    return replace(limit, parked=max(0, limit.parked - len(tasks)))


def give_back(work: Work) -> Script[None]:
    """Releases the permits of tasks that stopped running and unparks the next ones. Runs after all other
    decisions of the transaction."""
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
    """Whether a parked task left its limit: an operator took it out of the queue or put it at another
    gate."""
    before, after = transition.before.gate, transition.after
    return is_limit(before) and (after.gate != before or after.status is not Status.QUEUED)


def let_in(work: Work, limits: Limits) -> Script[int]:
    """Unparks as many tasks as there are permits. If another transaction holds some of them, the limit is
    checked again soon. Returns how many were unparked."""
    loaded = Counter(task.gate for task in work.tasks.values())
    loaded += Counter(t.before.gate for t in work.transitions)
    opened = 0
    for name, limit in list(limits.items()):
        free = min(rules.permits(limit, work.now), UNPARK_MAX)
        most = min(limit.parked, math.floor(free))
        if most < 1:
            continue
        # Changes of this transaction are not written yet, so its tasks still count as parked in the database.
        parked: list[Task] = yield call("parked_tasks", gate=name, limit=most + loaded[name])
        tasks = [task for task in parked if task.id not in work.versions][:most]
        if any(_is_in_turn(task, name) for task in tasks):
            tasks = yield from _in_turn(work, tasks, name)
        work.load(tasks)
        pause = rules.LET_IN_SECONDS if len(tasks) == most else HELD_RETRY_SECONDS
        limits[name] = replace(unpark(work, tasks, limit), look_at=work.now + pause)
        opened += len(tasks)
    return opened


def _in_turn(work: Work, tasks: list[Task], gate: str) -> Script[list[Task]]:
    """The parked tasks that leave the gate in the place of these. Those that this transaction changes
    otherwise are left out."""
    slots = turns.slots_of(tasks)
    held = yield from turns.lock(slots, work.now)
    ids = yield from turns.chosen(slots, held, work.now)
    free = sorted(task_id for task_id in ids if task_id not in work.versions)
    leaving: list[Task] = yield call("lock_parked", ids=free, gate=gate)
    return [*(task for task in tasks if task.fair_key is None), *leaving]
