"""How runs end: by their outcomes, or by leases that ran out.

Promises: a run that another transaction holds up keeps no other. Never: decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from holdfast.core.command import Instruction
from holdfast.core.decide import Refusal, Ruling
from holdfast.core.task import RunId, Task
from holdfast.errors import StoreUnavailable
from holdfast.store.access import Access
from holdfast.store.fast.finish import finish as fast_finish
from holdfast.store.port import RowHeld
from holdfast.store.scripts.apply import HELD, held_by_another

HELD_LEASE_SECONDS: Final = 1.0
"""When to look again at a lease that has ended, but whose task another transaction holds."""


class Swept(msgspec.Struct, frozen=True):
    """What was taken back from dead runners."""

    expired: list[Ruling]
    next_at: float | None = None
    """When to look again: the next lease ends, or one has that could not be taken back now."""


class Apply(Protocol):
    """The general way: `Store.apply`."""

    async def __call__(
        self, instructions: Sequence[Instruction], *, wait: bool = True, brief: bool = False
    ) -> list[Ruling]: ...


async def finish(
    access: Access, apply: Apply, ended: Sequence[tuple[Task, Instruction]], *, brief: bool
) -> list[Ruling]:
    """By the shortcut where it fits; what is left goes the general way."""
    answers = await fast_finish(access, ended)
    if isinstance(answers, list):
        return answers
    rest = [n for n in range(len(ended)) if n not in answers]
    if rest:
        instructions = [ended[n][1] for n in rest]
        try:
            decided = await apply(instructions, wait=False, brief=brief)
        except RowHeld:
            # Not a task of these but what they share, e.g. a limit: which of them is to be found out.
            decided = [held_by_another(instruction) for instruction in instructions]
        answers.update(zip(rest, decided, strict=True))
        if held := [n for n in rest if is_held(answers[n])]:
            # By a transaction of ours, as a rule: a claim that came too late for the task.
            with suppress(StoreUnavailable):
                decided = await apply([ended[n][1] for n in held], brief=True)
                answers.update(zip(held, decided, strict=True))
    return [answers[n] for n in range(len(ended))]


async def ending(
    access: Access, limit: int, without: Collection[RunId]
) -> tuple[list[RunId], float | None]:
    """Runs whose leases have ended, and when the next one does."""
    now = access.now()
    rows = await access.driver.read(
        lambda: access.dialect.ending_leases(now=now, limit=limit + len(without))
    )
    ended = [RunId(row[0], row[1]) for row in rows if row[2] <= now]
    next_at = next((row[2] for row in rows if row[2] > now), None)
    # One more than the limit: the first may be held, and must not stand for the others.
    return [run for run in ended if run not in without][: limit + 1], next_at


def is_held(ruling: Ruling) -> bool:
    """Whether nothing was decided, because another transaction holds the task at this moment."""
    return isinstance(ruling, Refusal) and ruling.code == HELD


def held_up(instructions: Sequence[Instruction], error: RowHeld) -> RowHeld:
    """Says which tasks an open transaction keeps from being changed."""
    names = sorted({instruction.task_id for instruction in instructions})
    which = (
        f"task {names[0]}" if len(names) == 1 else f"one of {len(names)} tasks from {names[0]} on"
    )
    return RowHeld(
        f"another transaction is open and holds {which}, or a limit, e.g. that of a handler which has ended "
        f"a step in it (ctx.once with tx): nothing was changed; try again when it has "
        f"ended ({error.__cause__})"
    )
