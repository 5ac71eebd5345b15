"""Runs of tasks and their ends: outcomes and expired leases.

Promises: a task that another transaction holds does not delay others. Never: decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from holdfast.core import codec, node as rules
from holdfast.core.command import Expire, Instruction, NamedPoint, Report
from holdfast.core.decide import Refusal, Ruling
from holdfast.core.loop_block import LoopBlock, block_of
from holdfast.core.task import RunId, Task
from holdfast.core.transition import HELD
from holdfast.errors import StoreUnavailable
from holdfast.store.access import Access
from holdfast.store.beside import Beside
from holdfast.store.fast.finish import finish as fast_finish
from holdfast.store.port import RowHeld
from holdfast.store.rows import read_nodes
from holdfast.store.scripts.apply import held_by_another
from holdfast.store.scripts.checkpoints import PointExists, PointRow
from holdfast.store.scripts.followers import Expiry
from holdfast.store.scripts.live import LiveReport

HELD_LEASE_SECONDS: Final = 1.0
"""Pause before the next try to expire a lease whose task another transaction holds."""


class Swept(msgspec.Struct, frozen=True):
    """The result of a sweep."""

    expired: list[Ruling]
    next_at: float | None = None
    """When to sweep again: the next lease ends, or one that has ended may be free."""


class Apply(Protocol):
    """The general path: `Store.apply`."""

    async def __call__(
        self,
        instructions: Sequence[Instruction],
        *,
        wait: bool = True,
        brief: bool = False,
        beside: Beside | None = None,
    ) -> list[Ruling]: ...


class RunStore:
    """The runs of one store."""

    def __init__(self, access: Access, apply: Apply) -> None:
        self._access = access
        self._apply = apply

    async def owned(self, node: str) -> list[tuple[str, int, float]]:
        """The runs of a node in the store: (id, fence, started at)."""
        return await self._access.driver.read(lambda: self._access.dialect.owned(node))

    async def report(self, instruction: Instruction, report: Report) -> Ruling:
        """Applies the report of a run, with its rows beside the task."""
        if report.point is not None:
            return await self.save_point(instruction, report, report.point)
        beside = LiveReport(report) if report.output is not None or report.totals else None
        return (await self._apply([instruction], beside=beside))[0]

    async def save_point(
        self, instruction: Instruction, report: Report, point: NamedPoint
    ) -> Ruling:
        """Applies the report of a named checkpoint, and adds its row. A repeat changes nothing."""
        value = report.checkpoint_json or "null"
        try:
            return (await self._apply([instruction], beside=PointRow(point, value)))[0]
        except PointExists:
            plain = msgspec.structs.replace(instruction, command=Report(checkpoint_json=value))
            return (await self._apply([plain]))[0]

    async def expired(
        self, limit: int = 100, *, at: float | None = None, without: Collection[RunId] = ()
    ) -> list[RunId]:
        """Runs whose leases have ended, or had ended `at` a time."""
        return (await ending(self._access, limit, at, without))[0]

    async def expire(self, runs: Sequence[RunId], *, brief: bool = False) -> list[Ruling]:
        """Expires these runs, unless their leases were renewed. Tasks that another transaction holds are left
        out. `brief`: RowHeld is raised early."""
        command = Expire(await self._blocks() if runs else {})
        instructions = [Instruction(run.task_id, command, fence=run.fence) for run in runs]
        beside = Expiry([run.task_id for run in runs])
        rulings = await self._apply(instructions, wait=False, brief=brief, beside=beside)
        return [ruling for ruling in rulings if not is_held(ruling)]

    async def _blocks(self) -> dict[str, LoopBlock]:
        """The live nodes that report a blocked event loop. They only name the cause of a loss, so they need
        not be of the same moment as the losses."""
        now = self._access.now()
        found = {}
        for node in await self._access.driver.read(read_nodes):
            info = codec.loads_object(node.info_json)
            block = block_of(info)
            if block is not None and rules.is_live(node.seen_at, rules.lease_seconds_of(info), now):
                found[node.id] = block
        return found


async def finish(
    access: Access, apply: Apply, ended: Sequence[tuple[Task, Instruction]], *, brief: bool
) -> list[Ruling]:
    """The shortcut first; the general path for the rest."""
    answers = await fast_finish(access, ended)
    if isinstance(answers, list):
        return answers
    rest = [n for n in range(len(ended)) if n not in answers]
    if rest:
        instructions = [ended[n][1] for n in rest]
        try:
            decided = await apply(instructions, wait=False, brief=brief)
        except RowHeld:
            # Not a task but something that they share, such as a limit. The caller finds out whose.
            decided = [held_by_another(instruction.task_id) for instruction in instructions]
        answers.update(zip(rest, decided, strict=True))
        if held := [n for n in rest if is_held(answers[n])]:
            # Usually by a short transaction of Holdfast: a claim that came too late for the task.
            with suppress(StoreUnavailable):
                decided = await apply([ended[n][1] for n in held], brief=True)
                answers.update(zip(held, decided, strict=True))
    return [answers[n] for n in range(len(ended))]


async def ending(
    access: Access, limit: int, at: float | None, without: Collection[RunId]
) -> tuple[list[RunId], float | None]:
    """Runs whose leases have ended, or had ended `at` a time, and when the next lease ends."""
    now = access.now() if at is None else at
    rows = await access.driver.read(
        lambda: access.dialect.ending_leases(now=now, limit=limit + len(without))
    )
    ended = [RunId(row[0], row[1]) for row in rows if row[2] <= now]
    next_at = next((row[2] for row in rows if row[2] > now), None)
    # One more than the limit: the first may be held, and must not hide the others.
    return [run for run in ended if run not in without][: limit + 1], next_at


def is_held(ruling: Ruling) -> bool:
    """Whether there is no decision because another transaction holds the task."""
    return isinstance(ruling, Refusal) and ruling.code == HELD


def held_up(instructions: Sequence[Instruction], error: RowHeld) -> RowHeld:
    """An error that names the tasks that an open transaction may hold."""
    names = sorted({instruction.task_id for instruction in instructions})
    which = (
        f"task {names[0]}" if len(names) == 1 else f"one of {len(names)} tasks from {names[0]} on"
    )
    return RowHeld(
        f"another transaction is open and holds {which}, or a limit, e.g. that of a handler which has ended "
        f"a step in it (ctx.once with tx): nothing was changed; try again when it has "
        f"ended ({error.__cause__})"
    )
