"""Writes the new tasks of one event loop to the store, with a hint for the workers.

Promises: a group is written in one transaction. Plain tasks of concurrent callers share a commit. On a store
with one writer, idle workers of this process start plain tasks in the commit that inserts them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdfast.bus.port import WORK, Bus, of_children
from holdfast.core.group import NewGroup
from holdfast.core.submit import Submission, like, parents_of, with_parents
from holdfast.engine.direct_start import DirectStart
from holdfast.errors import UnknownDependency
from holdfast.queue.batcher import Batcher
from holdfast.store.beside import Beside
from holdfast.store.store import Inserted, PreparedInsert, Store

GROUP_MAX: Final = 500


class NewTasks:
    """One for each session."""

    def __init__(self, store: Store, bus: Bus, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._bus = bus
        self.direct_start: DirectStart | None = None
        """Set while an engine of this event loop accepts new tasks."""
        # A server works on one group while the callers of another one prepare their next tasks.
        clock = None if store.one_writer else monotonic
        self._plain = Batcher(self._insert_one, self._insert_many, GROUP_MAX, monotonic=clock)
        self.insert_plain = self._plain.put
        """Inserts a plain task, together with those of concurrent callers."""

    async def insert_prepared(
        self,
        model: Submission,
        insert: PreparedInsert,
        task_id: str,
        payload_json: str,
        now: float,
    ) -> Inserted:
        """Inserts a plain task like the model. `insert`: of the store, for this model."""
        if self.direct_start is not None or not self._plain.begin():
            return await self.insert_plain(like(model, payload_json, task_id, now))
        try:
            notification = self._bus.notify_in_tx(WORK, one=True)
            inserted = await insert(task_id, payload_json, now, notification.hint)
            self._bus.committed(notification)
            return inserted
        finally:
            self._plain.ended()

    async def insert(
        self,
        group: Sequence[Submission],
        beside: Beside | None = None,
        into: NewGroup | None = None,
    ) -> list[Inserted]:
        """Inserts the tasks in one transaction, which also sends the hint, and the rows of `beside`. `into`:
        the task group that they make."""
        notification = self._bus.notify_in_tx(WORK)
        inserted = await self._by_name(
            group,
            lambda tasks: self._store.insert(
                tasks, hint=notification.hint, beside=beside, into=into
            ),
        )
        self._bus.committed(notification)
        return inserted

    async def insert_in_tx(
        self, group: Sequence[Submission], tx: object, into: NewGroup | None = None
    ) -> list[Inserted]:
        """Inserts the group in the caller's transaction. Its commit sends the hint."""
        hint = self._bus.notify_in_tx(WORK, must=True).hint
        if any(submission.edges for submission in group):
            hint = of_children(hint)
        return await self._by_name(
            group, lambda tasks: self._store.insert(tasks, tx=tx, hint=hint, into=into)
        )

    async def _by_name(
        self,
        group: Sequence[Submission],
        insert: Callable[[Sequence[Submission]], Awaitable[list[Inserted]]],
    ) -> list[Inserted]:
        """Inserts the group. The names of parents are resolved only if no task has such an id: most callers
        give ids."""
        try:
            return await insert(group)
        except UnknownDependency:
            parents = {
                project: await self._store.reads.named(sorted(names), [project])
                for project, names in parents_of(group).items()
            }
            ids = {
                project: {name: task.id for name, task in tasks.items()}
                for project, tasks in parents.items()
            }
            renamed = with_parents(group, ids)
            if renamed == group:
                raise
            return await insert(renamed)

    async def _insert_one(self, submission: Submission) -> Inserted:
        """Inserts the plain task of a single caller."""
        direct = self.direct_start
        if direct is not None and (taken := direct.take([submission])) is not None:
            return (await taken)[0]
        notification = self._bus.notify_in_tx(WORK, one=True)
        inserted = await self._store.insert([submission], hint=notification.hint)
        self._bus.committed(notification)
        return inserted[0]

    async def _insert_many(self, group: Sequence[Submission]) -> list[Inserted]:
        """Inserts the plain tasks of concurrent callers with one statement."""
        direct = self.direct_start
        if direct is not None and (taken := direct.take(group)) is not None:
            return await taken
        return await self.insert(group)
