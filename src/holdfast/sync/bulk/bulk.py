"""Use cases of bulk runs: make, read, advance, stop, resume.

Promises: a batch of tasks, its audit rows and the figures of the run are one transaction, so a run that died
goes on where it was, in any process. Of two processes that advance one run, one writes; the other notices.
A task that another transaction holds delays no other task. A run stops by itself when the token that began it
is revoked, or when its tasks cannot be assigned to their node any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from holdfast.core import bulk as rules, bulk_again, bulk_canary
from holdfast.core.bulk import BulkAction, BulkRun, BulkSpec, BulkState
from holdfast.core.command import Instruction
from holdfast.core.event import NewEvent
from holdfast.core.task import Task
from holdfast.core.token import TokenState
from holdfast.core.transition import HELD, Transition
from holdfast.errors import InvalidInput
from holdfast.queue.by import By
from holdfast.store.beside import Beside, begin, end
from holdfast.store.script import Script, call
from holdfast.store.scripts.interventions import check_node
from holdfast.store.store import Store
from holdfast.sync.access import scripts as access
from holdfast.sync.bulk import rows as bulk_rows
from holdfast.sync.rows import own

LAST: Final = "op_~"
"""Behind every id of a run."""
REVOKED: Final = "the token that began or resumed the operation was revoked"
_ids: Final = msgspec.json.Decoder(list[str])
NONE: Final[Mapping[str, int]] = {}
MakeBeside = Callable[[BulkSpec], Beside | None]
"""What a batch writes beside it: audit rows."""


class Moved(Exception):
    """Another process has advanced or stopped the run."""


class Halt(Exception):
    """The run must not go on. The text says why."""


class BulkRuns:
    """The use cases of bulk runs."""

    def __init__(self, store: Store, affinity_seconds: float = 0.0) -> None:
        """`affinity_seconds`: how long tasks that are resumed prefer the nodes that ran them."""
        self._store = store
        self._affinity_seconds = affinity_seconds

    def new_id(self) -> str:
        return rules.PREFIX + self._store.ids.task(self._store.now()).replace("-", "")

    async def create(
        self,
        spec: BulkSpec,
        ids: Sequence[str],
        beside: Beside | None,
        run_id: str | None = None,
        *,
        absent: Mapping[str, int] = NONE,
        token_id: str | None = None,
    ) -> BulkRun:
        """A new run over these tasks. The outcome for `beside` is the run. `absent`: how many others were
        named, by the reason why they are left out. `token_id`: of who makes it."""
        if len(ids) > rules.TASKS_MAX:
            raise InvalidInput(f"{len(ids)} tasks: a run has at most {rules.TASKS_MAX}")
        store = self._store
        name = self.new_id() if run_id is None else run_id
        run = rules.begun(name, spec, len(ids), absent, token_id)
        return await store.run(
            lambda _dialect, _ids, now: bulk_rows.create(run, list(ids), beside=beside, now=now)
        )

    async def get(self, run_id: str) -> BulkRun:
        """NotFound if there is none."""
        return await self._store.read(lambda: bulk_rows.read("bulk_run", run_id))

    async def page(self, *, before: str | None, limit: int) -> list[BulkRun]:
        """One page of the runs, the latest first."""

        def script() -> Script[list[BulkRun]]:
            rows = yield call(own("bulk_runs"), before=before or LAST, limit=limit)
            return [bulk_rows.to_run(row) for row in rows]

        return await self._store.read(script)

    async def idle(self, before: float, limit: int = 10) -> list[str]:
        """Runs whose next batch was due before this time, and not tried since."""

        def script() -> Script[list[str]]:
            rows = yield call(own("idle_bulk_runs"), before=before, limit=limit)
            return [row[0] for row in rows]

        return await self._store.read(script)

    async def take(self, run_id: str, before: float) -> bool:
        """Takes an idle run over, and moves it behind the others. False: another process was first."""

        def script() -> Script[bool]:
            values = {"before": before, "now": self._store.now()}
            return bool((yield call(own("take_bulk_run"), id=run_id, **values)))

        return await self._store.run(lambda *_: script())

    async def delay(self, run: BulkRun, detail: str) -> None:
        """Notes a try that failed. The run is tried again when it is idle."""

        def script() -> Script[None]:
            values = {"version": run.version, "now": self._store.now()}
            yield call(own("delay_bulk_run"), id=run.id, detail=detail, **values)

        await self._store.run(lambda *_: script())

    async def ids(self, run_id: str) -> list[str]:
        """The tasks of a run, in its order."""

        def script() -> Script[list[str]]:
            rows = yield call(own("bulk_ids"), id=run_id)
            return _ids.decode(rows[0][0]) if rows else []

        return await self._store.read(script)

    async def advance(
        self,
        run: BulkRun,
        ids: Sequence[str],
        make_beside: MakeBeside = lambda _: None,
        most: int = rules.BATCH,
    ) -> BulkRun:
        """Changes the next batch, at most this many tasks, or looks at tasks that were replayed. Moved if
        another process was first. RowHeld if the tasks need a row that another transaction holds, e.g. that
        of a limit."""
        if run.is_watching:
            tasks = await self._store.reads.get(run.progress.watched)
            return await self._change(run.id, None, partial(_looked, run, tasks))
        if bulk_again.is_due(run, self._store.now()):
            tasks_judged = list(bulk_again.judged_tasks(run, ids))
            dead = await self._dead_since(tasks_judged, run.created_at)
            return await self._change(run.id, None, partial(_counted, run, len(tasks_judged), dead))
        batch = run.next_tasks(ids, most)
        step = _Step(run, batch, make_beside(run.spec), await self._samples(run.spec, batch))
        try:
            await self._store.apply(await self._instructions(run, batch), wait=False, beside=step)
        except Halt as halt:
            return await self._change(run.id, None, partial(_halted, run, reason=str(halt)))
        return step.after_run

    async def put_aside(self, run: BulkRun, ids: Sequence[str], most: int) -> BulkRun:
        """Leaves the next batch for later."""
        batch = run.next_tasks(ids, most)
        return await self._change(run.id, None, partial(_put_aside, run, batch))

    async def _dead_since(self, ids: list[str], since: float) -> int:
        def script() -> Script[int]:
            rows = yield call(own("dead_since"), ids=ids, since=since)
            return int(rows[0][0])

        return await self._store.read(script)

    async def _samples(self, spec: BulkSpec, batch: Sequence[str]) -> list[Task]:
        """Tasks to judge the node of a reassignment by."""
        if spec.to_node is None:
            return []
        return samples((await self._store.reads.get(batch)).values())

    async def _instructions(self, run: BulkRun, batch: Sequence[str]) -> list[Instruction]:
        spec, affinity = run.spec, None
        if spec.action is BulkAction.RESUME:
            affinity = await self._store.reads.affinity(batch, self._affinity_seconds)
        command = spec.command(affinity, run.id)
        if not spec.is_conditional:
            return [Instruction(task_id, command) for task_id in batch]
        tasks = (await self._store.reads.get(batch)).values()
        versions = {task.id: task.version for task in tasks if spec.covers(task)}
        # The others are left as they are: no task has the version 0.
        return [Instruction(id, command, version=versions.get(id, 0)) for id in batch]

    async def stop(self, run_id: str, by: By) -> BulkRun:
        """No further task is changed. The outcome for `by.beside` is the run."""
        reason = by.reason or f"stopped by {by.actor}"
        return await self._change(run_id, by.beside, partial(_stopped, reason=reason))

    async def resume(self, run_id: str, by: By, *, token_id: str | None = None) -> BulkRun:
        """The run goes on with the tasks that are left. `token_id`: of who resumes it."""
        rule = partial(rules.resumed, token_id=token_id)
        return await self._change(run_id, by.beside, rule)

    async def _change(
        self, run_id: str, beside: Beside | None, rule: Callable[[BulkRun, float], BulkRun]
    ) -> BulkRun:
        return await self._store.run(
            lambda _dialect, _ids, now: bulk_rows.change(run_id, rule, beside=beside, now=now)
        )


class _Step(Beside):
    """Writes the figures of a run with the batch that they are of."""

    __slots__ = ("_batch", "_inner", "_run", "_samples", "after_run")

    def __init__(
        self, run: BulkRun, batch: Sequence[str], inner: Beside | None, samples: Sequence[Task]
    ) -> None:
        self._run = run
        self._batch = batch
        self._inner = inner
        self._samples = samples
        self.after_run = run

    def before(self, now: float) -> Script[None]:
        yield from begin(self._inner, now)
        row = yield from bulk_rows.read("lock_bulk_run", self._run.id)
        _check_same(row, self._run)
        yield from _check_token(row.progress.token_id, now)
        yield from _check_node(row.spec.to_node, self._samples)

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        assert isinstance(outcome, list)
        codes = [None if isinstance(ruling, Transition) else ruling.code for ruling in outcome]
        self.after_run = rules.advance(self._run, self._batch, codes, now)
        yield from bulk_rows.write(self.after_run)
        return (yield from end(self._inner, outcome, now))


def samples(tasks: Iterable[Task]) -> list[Task]:
    """One task of each project and type: whether a node can claim a task depends on no more."""
    return list({(task.project, task.type): task for task in tasks}.values())


def _check_same(row: BulkRun, run: BulkRun) -> None:
    if row.version != run.version or row.state is not BulkState.RUNNING:
        raise Moved


def _check_token(token_id: str | None, now: float) -> Script[None]:
    """A run outlives the end of its token's lifetime, but not its revocation."""
    if token_id is not None:
        token = yield from access.get(token_id)
        if token is None or token.state(now) is TokenState.REVOKED:
            raise Halt(REVOKED)


def _check_node(node: str | None, tasks: Sequence[Task]) -> Script[None]:
    """As for a single reassignment: the node may have been revoked since the last batch."""
    if node is None:
        return
    for task in tasks:
        try:
            yield from check_node(node, task)
        except InvalidInput as error:
            raise Halt(str(error)) from None


def _stopped(run: BulkRun, now: float, *, reason: str) -> BulkRun:
    return rules.stopped(run, reason, now)


def _halted(expected: BulkRun, run: BulkRun, now: float, *, reason: str) -> BulkRun:
    _check_same(run, expected)
    return rules.stopped(run, reason, now)


def _looked(expected: BulkRun, tasks: Mapping[str, Task], run: BulkRun, now: float) -> BulkRun:
    _check_same(run, expected)
    return bulk_canary.looked(run, tasks, now)


def _counted(expected: BulkRun, looked: int, dead: int, run: BulkRun, now: float) -> BulkRun:
    _check_same(run, expected)
    return bulk_again.counted(run, looked, dead, now)


def _put_aside(expected: BulkRun, batch: Sequence[str], run: BulkRun, now: float) -> BulkRun:
    _check_same(run, expected)
    return rules.advance(run, batch, [HELD] * len(batch), now)
