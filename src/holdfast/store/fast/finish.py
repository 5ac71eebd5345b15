"""Shortcut of `Store.finish`: completions of tasks without limits and dependents, in one statement."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.claiming import SMALL
from holdfast.core.command import Complete, Instruction
from holdfast.core.decide import Ruling, Transition, decide
from holdfast.core.task import RUNNING, Task
from holdfast.store.access import Access
from holdfast.store.port import RecordExists, RowHeld


async def finish(
    access: Access, ended: Sequence[tuple[Task, Instruction]]
) -> list[Ruling] | dict[int, Ruling]:
    """The rulings if all were written; otherwise the rulings of those that were, by their index in `ended`.
    The others are left to the general path."""
    now = access.now()
    plain: dict[str, int] = {}
    moves: list[Transition] = []
    for n, (task, instruction) in enumerate(ended):
        # One outcome for each task. That of another run of the task takes the general path, in its turn.
        if type(instruction.command) is Complete and not task.limits and task.id not in plain:
            moved = decide(task, instruction, now)
            # The statement writes one event for each task; the end of a stuck task has two.
            if type(moved) is Transition and task.status is RUNNING:
                plain[task.id] = n
                moves.append(moved)
    if not plain:
        return {}
    record_id = access.ids.record(now)
    try:
        written = await access.driver.write_one(
            lambda: access.dialect.fast.complete_plain(moves, now=now, record_id=record_id),
            small=len(plain) <= SMALL,
        )
    except (RecordExists, RowHeld):
        # A locked row fails the statement for all tasks. The general path skips it.
        return {}
    if len(written) == len(ended):
        return list(moves)
    return {n: moves[i] for i, (task_id, n) in enumerate(plain.items()) if task_id in written}
