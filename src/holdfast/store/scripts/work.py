"""A unit of work: the tasks that a transaction has read, and what it will do to them.

Promises: every change that goes in comes out with its facts, its counter movements and the version that
was seen, in one write. Never: a row without its record in the feed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from holdfast.core.decide import Transition
from holdfast.core.event import NewEvent
from holdfast.core.task import Priority, Status, Task
from holdfast.errors import Conflict
from holdfast.store.columns import changed_values
from holdfast.store.script import Script, call, call_rows

DeltaKey = tuple[str, str, Priority, Status]


class Recorder(Protocol):
    """How a dialect appends a record to the feed, and how much one of its transactions may settle."""

    @property
    def cascade_batch(self) -> int:
        """Edges to dependents that one transaction looks at."""
        ...

    def record_ref(self, record_id: int) -> Script[int]:
        """What rows remember a record by, given an id made for it."""
        ...

    def record(
        self, *, record_id: int, now: float, events_json: str, events_count: int, deltas_json: str
    ) -> Script[None]: ...


class Work:
    """What one transaction does."""

    __slots__ = (
        *("_mentioned", "deltas", "events", "held", "is_cut_short", "now", "seen", "tasks"),
        "transitions",
    )

    def __init__(self, now: float) -> None:
        self.now = now
        self.tasks: dict[str, Task] = {}
        self.seen: dict[str, int] = {}
        self.events: list[NewEvent] = []
        self._mentioned: set[str] = set()
        self.deltas: Counter[DeltaKey] = Counter()
        self.transitions: list[Transition] = []
        self.held: dict[str, list[str]] = {}
        """Dead letters that might come back but for these parents, which are dead."""
        self.is_cut_short = False
        """More hangs on these changes than one transaction settles; the rest is written down."""

    def load(self, tasks: Iterable[Task]) -> None:
        """Rows as read under lock; what was loaded before stays as it is."""
        for task in tasks:
            if task.id not in self.seen:
                self.tasks[task.id] = task
                self.seen[task.id] = task.version

    def move(self, transition: Transition) -> None:
        before, after = transition.before, transition.after
        self.tasks[after.id] = after
        self.events.extend(transition.events)
        self.transitions.append(transition)
        if before.status is not after.status:
            self.count(before, -1)
            self.count(after, 1)

    def mention(self, events: Iterable[NewEvent]) -> None:
        """What goes into the feed without a change, e.g. the evidence of a late result."""
        for fact in events:
            self.events.append(fact)
            self._mentioned.add(fact.task_id)

    def count(self, task: Task, n: int) -> None:
        self.deltas[task.queue, task.type, task.priority, task.status] += n

    def rows(self) -> list[tuple[Any, ...]]:
        """One row for each task that changed, against the version that was read."""
        changed = {t.after.id: None for t in self.transitions}
        return [
            (task_id, self.seen[task_id], *changed_values(self.tasks[task_id]))
            for task_id in changed
        ]

    def save(self, recorder: Recorder, record_id: int) -> Script[None]:
        """Writes everything: rows first, the record last, when all locks are held."""
        rows = self.rows()
        if not rows and not self.events:
            return
        record_id = yield from recorder.record_ref(record_id)
        if rows:
            written = yield call_rows("write_tasks", rows, record_id=str(record_id))
            if len(written) != len(rows):
                raise Conflict("a task changed under a transaction that had locked it")
        if unchanged_ids := self._only_mentioned():
            yield call("note_tasks", ids=unchanged_ids, record_id=str(record_id))
        yield from record(recorder, record_id, self.now, self.events, self.deltas)

    def _only_mentioned(self) -> list[str]:
        """Tasks that have an event but do not change. Their rows refer to the record as well, so that their
        history is complete."""
        if not self._mentioned:
            return []
        return sorted(self._mentioned - {each.after.id for each in self.transitions})


def load_free(work: Work, ids: Iterable[str]) -> Script[frozenset[str]]:
    """Locks and reads relatives of the tasks of a transaction, without waiting. Returns those that another
    transaction holds."""
    missing = sorted({task_id for task_id in ids if task_id not in work.seen})
    if not missing:
        return frozenset()
    work.load((yield call("lock_free_family", ids=missing)))
    return (yield from held(work, missing))


def held(work: Work, ids: Iterable[str]) -> Script[frozenset[str]]:
    """Those that exist but could not be locked."""
    missing = [task_id for task_id in ids if task_id not in work.seen]
    rows = (yield call("get_tasks", ids=missing)) if missing else []
    return frozenset(task.id for task in rows)


def shifted(tasks: Iterable[Task], before: Status, after: Status) -> Counter[DeltaKey]:
    """The movement of tasks that all went from one status to another."""
    deltas: Counter[DeltaKey] = Counter()
    for (queue, kind, priority), n in Counter(
        [(task.queue, task.type, task.priority) for task in tasks]
    ).items():
        deltas[queue, kind, priority, before] = -n
        deltas[queue, kind, priority, after] = n
    return deltas


def counted(tasks: Iterable[Task]) -> Counter[DeltaKey]:
    """How many tasks there are of each kind."""
    return Counter([(task.queue, task.type, task.priority, task.status) for task in tasks])


def record(
    recorder: Recorder,
    record_id: int,
    now: float,
    events: list[NewEvent],
    deltas: Counter[DeltaKey],
) -> Script[None]:
    """Appends the facts of a transaction to the feed; nothing happened, nothing is written."""
    if events:
        yield from recorder.record(
            record_id=record_id,
            now=now,
            events_json=msgspec.json.encode(events).decode(),
            events_count=len(events),
            deltas_json=deltas_json(deltas),
        )


def deltas_json(deltas: Counter[DeltaKey]) -> str:
    moved = [[*key, n] for key, n in deltas.items() if n]
    return msgspec.json.encode(moved).decode()
