"""Use cases of bulk runs: make, read, advance, stop, resume.

Promises: a batch of tasks, its audit rows and the figures of the run are one transaction, so a run that died
goes on where it was, in any process. Of two processes that advance one run, one writes; the other notices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import bulk as rules, codec
from holdfast.core.bulk import BulkAction, BulkRun, BulkSpec, BulkState
from holdfast.core.command import Instruction
from holdfast.core.event import NewEvent
from holdfast.core.transition import Transition
from holdfast.errors import InvalidInput, NotFound
from holdfast.queue.by import By
from holdfast.store.beside import Beside, begin, end
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.rows import own

LAST: Final = "op_~"
"""Behind every id of a run."""
_spec: Final = msgspec.json.Decoder(BulkSpec)
_ids: Final = msgspec.json.Decoder(list[str])
MakeBeside = Callable[[BulkSpec], Beside | None]
"""What a batch writes beside it: audit rows."""


class Moved(Exception):
    """Another process has advanced or stopped the run."""


class BulkRuns:
    """The use cases of bulk runs."""

    def __init__(self, store: Store, affinity_seconds: float = 0.0) -> None:
        """`affinity_seconds`: how long tasks that are resumed prefer the nodes that ran them."""
        self._store = store
        self._affinity_seconds = affinity_seconds

    def new_id(self) -> str:
        return rules.PREFIX + self._store.ids.task(self._store.now()).replace("-", "")

    async def create(
        self, spec: BulkSpec, ids: Sequence[str], beside: Beside | None, run_id: str | None = None
    ) -> BulkRun:
        """A new run over these tasks. The outcome for `beside` is the run."""
        if len(ids) > rules.TASKS_MAX:
            raise InvalidInput(f"{len(ids)} tasks: a run has at most {rules.TASKS_MAX}")
        store = self._store
        run = BulkRun(
            id=self.new_id() if run_id is None else run_id,
            spec=spec,
            state=BulkState.RUNNING if ids else BulkState.DONE,
            total=len(ids),
        )
        return await store.run(
            lambda _dialect, _ids, now: _create(run, list(ids), beside=beside, now=now)
        )

    async def get(self, run_id: str) -> BulkRun:
        """NotFound if there is none."""
        return await self._store.read(lambda: _read("bulk_run", run_id))

    async def page(self, *, before: str | None, limit: int) -> list[BulkRun]:
        """One page of the runs, the latest first."""

        def script() -> Script[list[BulkRun]]:
            rows = yield call(own("bulk_runs"), before=before or LAST, limit=limit)
            return [_run(row) for row in rows]

        return await self._store.read(script)

    async def idle(self, before: float, limit: int = 10) -> list[str]:
        """Runs that nothing has advanced since this time."""

        def script() -> Script[list[str]]:
            rows = yield call(own("idle_bulk_runs"), before=before, limit=limit)
            return [row[0] for row in rows]

        return await self._store.read(script)

    async def ids(self, run_id: str) -> list[str]:
        """The tasks of a run, in its order."""

        def script() -> Script[list[str]]:
            rows = yield call(own("bulk_ids"), id=run_id)
            return _ids.decode(rows[0][0]) if rows else []

        return await self._store.read(script)

    async def advance(
        self, run: BulkRun, ids: Sequence[str], make_beside: MakeBeside = lambda _: None
    ) -> BulkRun:
        """Changes the next batch. Moved if another process was first."""
        batch = ids[run.position : run.position + run.batch]
        step = _Step(run, make_beside(run.spec))
        await self._store.apply(await self._instructions(run.spec, batch), beside=step)
        return step.after_run

    async def _instructions(self, spec: BulkSpec, batch: Sequence[str]) -> list[Instruction]:
        affinity = None
        if spec.action is BulkAction.RESUME:
            affinity = await self._store.reads.affinity(batch, self._affinity_seconds)
        command = spec.command(affinity)
        if spec.action is not BulkAction.DISCARD:
            return [Instruction(task_id, command) for task_id in batch]
        # A task that was replayed meanwhile is not discarded: no task has the version 0.
        tasks = await self._store.reads.get(batch)
        dead = {task.id: task.version for task in tasks.values() if task.is_dead}
        return [Instruction(task_id, command, version=dead.get(task_id, 0)) for task_id in batch]

    async def stop(self, run_id: str, by: By) -> BulkRun:
        """No further task is changed. The outcome for `by.beside` is the run."""
        reason = by.reason or f"stopped by {by.actor}"
        return await self._change(run_id, by, partial(_stopped, reason=reason))

    async def resume(self, run_id: str, by: By) -> BulkRun:
        """The run goes on with the tasks that are left."""
        return await self._change(run_id, by, rules.resumed)

    async def _change(
        self, run_id: str, by: By, rule: Callable[[BulkRun, float], BulkRun]
    ) -> BulkRun:
        return await self._store.run(
            lambda _dialect, _ids, now: _change(run_id, rule, beside=by.beside, now=now)
        )


class _Step(Beside):
    """Writes the figures of a run with the batch that they are of."""

    __slots__ = ("_inner", "_run", "after_run")

    def __init__(self, run: BulkRun, inner: Beside | None) -> None:
        self._run = run
        self._inner = inner
        self.after_run = run

    def before(self, now: float) -> Script[None]:
        yield from begin(self._inner, now)
        row = yield from _read("lock_bulk_run", self._run.id)
        if row.version != self._run.version or row.state is not BulkState.RUNNING:
            raise Moved

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        assert isinstance(outcome, list)
        codes = [None if isinstance(ruling, Transition) else ruling.code for ruling in outcome]
        self.after_run = rules.advance(self._run, codes, now)
        yield from _write(self.after_run)
        return (yield from end(self._inner, outcome, now))


def _stopped(run: BulkRun, now: float, *, reason: str) -> BulkRun:
    return rules.stopped(run, reason, now)


def _create(run: BulkRun, ids: list[str], *, beside: Beside | None, now: float) -> Script[BulkRun]:
    yield from begin(beside, now)
    run = replace(run, created_at=now, updated_at=now)
    yield call(
        own("add_bulk_run"),
        id=run.id,
        spec_json=msgspec.json.encode(run.spec).decode(),
        ids_json=codec.dumps(ids),
        state=run.state.value,
        total=run.total,
        errors_json=rules.errors_json(run),
        now=now,
    )
    yield from end(beside, run, now)
    return run


def _change(
    run_id: str,
    rule: Callable[[BulkRun, float], BulkRun],
    *,
    beside: Beside | None,
    now: float,
) -> Script[BulkRun]:
    yield from begin(beside, now)
    before = yield from _read("lock_bulk_run", run_id)
    after = rule(before, now)
    if after is not before:
        yield from _write(after)
    yield from end(beside, after, now)
    return after


def _read(statement: str, run_id: str) -> Script[BulkRun]:
    rows = yield call(own(statement), id=run_id)
    if not rows:
        raise NotFound(f"there is no operation '{run_id}'")
    return _run(rows[0])


def _write(run: BulkRun) -> Script[None]:
    yield call(
        own("write_bulk_run"),
        id=run.id,
        state=run.state.value,
        done=run.done,
        failed=run.failed,
        errors_json=rules.errors_json(run),
        detail=run.detail,
        updated_at=run.updated_at,
        version=run.version,
    )


def _run(row: Sequence[Any]) -> BulkRun:
    names = ("total", "done", "failed", "errors", "detail", "created_at", "updated_at", "version")
    values: dict[str, Any] = dict(zip(names, row[3:], strict=True))
    values["errors"] = codec.loads_object(row[6])
    return BulkRun(id=row[0], spec=_spec.decode(row[1]), state=BulkState(row[2]), **values)
