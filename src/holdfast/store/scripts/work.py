"""A unit of work: the tasks that a transaction has read, and the changes it will write.

Promises: every change is written with its events and counter deltas, guarded by the version that was read.
Never: writes a row without a record in the feed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from holdfast.core.decide import Ruling, Transition
from holdfast.core.event import NewEvent
from holdfast.core.task import Priority, Status, Task
from holdfast.errors import Conflict
from holdfast.store.columns import changed_values
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import tags

DeltaKey = tuple[str, str, str, Priority, Status]
"""(project, queue, type, priority, status)."""


class Recorder(Protocol):
    """The part of a dialect that appends records to the feed and bounds cascades."""

    @property
    def cascade_batch(self) -> int:
        """Edges to dependents that one transaction reads."""
        ...

    def record_ref(self, record_id: int) -> Script[int]:
        """The reference to a record that task rows store, given the id made for the record."""
        ...

    def record(
        self, *, record_id: int, now: float, events_json: str, events_count: int, deltas_json: str
    ) -> Script[None]: ...


class Mark(msgspec.Struct, frozen=True):
    """Work as it was at a moment."""

    tasks: dict[str, Task]
    versions: dict[str, int]
    mentioned: frozenset[str]
    deltas: Counter[DeltaKey]
    events: int
    transitions: int


class Work:
    """The changes of one transaction."""

    __slots__ = (
        *("_mentioned", "deltas", "events", "still_dead", "is_cut_short", "now", "tasks"),
        *("expired", "transitions", "versions"),
    )

    def __init__(self, now: float) -> None:
        self.now = now
        self.tasks: dict[str, Task] = {}
        self.versions: dict[str, int] = {}
        """Versions of the loaded tasks as they were read."""
        self.events: list[NewEvent] = []
        self._mentioned: set[str] = set()
        self.deltas: Counter[DeltaKey] = Counter()
        self.transitions: list[Transition] = []
        self.expired: list[Ruling] = []
        """Runs whose end the log of the exchange names."""
        self.still_dead: dict[str, list[str]] = {}
        """Dead letters that cannot be revived yet, with the dead parents that prevent it."""
        self.is_cut_short = False
        """Whether dependents are left over. They are recorded for a later batch."""

    def load(self, tasks: Iterable[Task]) -> None:
        """Adds rows that were read under lock. A task that is loaded already keeps its current state."""
        for task in tasks:
            if task.id not in self.versions:
                self.tasks[task.id] = task
                self.versions[task.id] = task.version

    def move(self, transition: Transition) -> None:
        before, after = transition.before, transition.after
        self.tasks[after.id] = after
        self.events.extend(transition.events)
        self.transitions.append(transition)
        if before.status is not after.status:
            self.count(before, -1)
            self.count(after, 1)

    def mention(self, events: Iterable[NewEvent]) -> None:
        """Records events without a change of the task, for example `task.late`."""
        for event in events:
            self.events.append(event)
            if event.task_id:
                self._mentioned.add(event.task_id)

    def mark(self) -> Mark:
        """What `rewind` goes back to."""
        return Mark(
            dict(self.tasks),
            dict(self.versions),
            frozenset(self._mentioned),
            self.deltas.copy(),
            len(self.events),
            len(self.transitions),
        )

    def rewind(self, mark: Mark) -> None:
        """Undoes what was added after the mark. Rows that were locked since stay locked."""
        self.tasks, self.versions = dict(mark.tasks), dict(mark.versions)
        self._mentioned, self.deltas = set(mark.mentioned), mark.deltas.copy()
        del self.events[mark.events :]
        del self.transitions[mark.transitions :]

    def count(self, task: Task, n: int) -> None:
        self.deltas[task.project, task.queue, task.type, task.priority, task.status] += n

    def rows(self) -> list[tuple[Any, ...]]:
        """One row for each changed task, with the version that was read."""
        changed = {t.after.id: None for t in self.transitions}
        return [
            (task_id, self.versions[task_id], *changed_values(self.tasks[task_id]))
            for task_id in changed
        ]

    def save(self, recorder: Recorder, record_id: int) -> Script[None]:
        """Writes the rows, then the record. The record comes last because all locks must be held by then."""
        rows = self.rows()
        if not rows and not self.events:
            return
        record_id = yield from recorder.record_ref(record_id)
        if rows:
            written = yield call_rows("write_tasks", rows, record_id=str(record_id))
            if len(written) != len(rows):
                raise Conflict("a task changed under a transaction that had locked it")
            yield from tags.change(self.transitions)
        if unchanged_ids := self._only_mentioned():
            yield call("note_tasks", ids=unchanged_ids, record_id=str(record_id))
        yield from record(recorder, record_id, self.now, self.events, self.deltas)

    def _only_mentioned(self) -> list[str]:
        """Tasks that have an event but do not change. Their rows refer to the record as well, so that their
        history is complete."""
        if not self._mentioned:
            return []
        return sorted(self._mentioned - {transition.after.id for transition in self.transitions})


def load_free(work: Work, ids: Iterable[str]) -> Script[frozenset[str]]:
    """Locks and reads parents or children of loaded tasks, without waiting. Returns the ids that another
    transaction holds."""
    missing = sorted({task_id for task_id in ids if task_id not in work.versions})
    if not missing:
        return frozenset()
    work.load((yield call("lock_free_family", ids=missing)))
    return (yield from held(work, missing))


def held(work: Work, ids: Iterable[str]) -> Script[frozenset[str]]:
    """The ids of tasks that exist but were not locked."""
    missing = [task_id for task_id in ids if task_id not in work.versions]
    rows = (yield call("get_tasks", ids=missing)) if missing else []
    return frozenset(task.id for task in rows)


def shifted(tasks: Iterable[Task], before: Status, after: Status) -> Counter[DeltaKey]:
    """Counter deltas of tasks that all changed from one status to another."""
    deltas: Counter[DeltaKey] = Counter()
    for (project, queue, kind, priority), n in Counter(
        [(task.project, task.queue, task.type, task.priority) for task in tasks]
    ).items():
        deltas[project, queue, kind, priority, before] = -n
        deltas[project, queue, kind, priority, after] = n
    return deltas


def shifted_alike(task: Task, count: int, before: Status, after: Status) -> str:
    """The same as JSON, for tasks of one kind like this one."""
    kind = (task.project, task.queue, task.type, task.priority)
    return deltas_json(Counter({(*kind, before): -count, (*kind, after): count}))


def counted(tasks: Iterable[Task]) -> Counter[DeltaKey]:
    """Counter deltas of new tasks."""
    return Counter(
        [(task.project, task.queue, task.type, task.priority, task.status) for task in tasks]
    )


def record(
    recorder: Recorder,
    record_id: int,
    now: float,
    events: list[NewEvent],
    deltas: Counter[DeltaKey],
) -> Script[None]:
    """Appends the events of a transaction to the feed. Without events, nothing is written."""
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
