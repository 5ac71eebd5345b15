"""Handlers with a step that acts once, in an external service or in the database of the queue.

Payload: `journal`, `gate`, and `url` for the database. Each handler waits at the gate within its effect (as
`acting`) and after the step (as `acted`), so a test can kill it there.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import apsw
import asyncpg

from holdfast import BlockingContext, Context, Task
from holdfast.core.ledger import EntryLease
from tests.acceptance.apps import journal
from tests.acceptance.apps.gate import async_wait_at, wait_at


def act(path: str, turn: EntryLease) -> str:
    """Charges in the external service. Every attempt after the first looks the id up before."""
    if turn.attempt > 1 and any(entry.task_id == turn.id for entry in journal.read(path)):
        return "was charged"
    journal.write(path, "charge", turn.id, str(turn.fence))
    return "charged"


async def pay_outside(task: Task, ctx: Context) -> Any:
    said: Any = task.payload

    async def effect(turn: EntryLease) -> str:
        answer = act(said["journal"], turn)
        await async_wait_at(said["gate"], "acting")
        return answer

    answer = await ctx.once("charge", effect)
    await async_wait_at(said["gate"], "acted")
    return answer


def pay_outside_blocking(task: Task, ctx: BlockingContext) -> Any:
    said: Any = task.payload

    def effect(turn: EntryLease) -> str:
        answer = act(said["journal"], turn)
        wait_at(said["gate"], "acting")
        return answer

    answer = ctx.once("charge", effect)
    wait_at(said["gate"], "acted")
    return answer


def pay_and_die(task: Task, ctx: BlockingContext) -> Any:
    """Runs in a separate process, which is killed within the effect first, and after it the second time."""
    said: Any = task.payload

    def effect(turn: EntryLease) -> str:
        answer = act(said["journal"], turn)
        if turn.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    answer = ctx.once("charge", effect)
    journal.write(said["journal"], "after", task.id)
    if ctx.attempt == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


async def pay_inside(task: Task, ctx: Context) -> Any:
    said: Any = task.payload

    async def stand(name: str) -> None:
        await async_wait_at(said["gate"], name)

    if said["url"].startswith("sqlite"):
        answer = await _in_file(said["url"].removeprefix("sqlite:///"), ctx, stand)
    else:
        answer = await _in_server(said["url"], ctx, stand)
    await stand("acted")
    return answer


async def _in_file(path: str, ctx: Context, stand: Any) -> Any:
    connection = apsw.Connection(path)
    connection.set_busy_timeout(10_000)

    async def effect(turn: EntryLease) -> str:
        connection.execute("INSERT INTO charges VALUES (?)", (turn.id,))
        await stand("acting")
        return "charged"

    try:
        connection.execute("BEGIN IMMEDIATE")
        answer = await ctx.once("charge", effect, tx=connection)
        connection.execute("COMMIT")
    finally:
        connection.close()
    return answer


async def _in_server(dsn: str, ctx: Context, stand: Any) -> Any:
    connection = await asyncpg.connect(dsn)

    async def effect(turn: EntryLease) -> str:
        await connection.execute("INSERT INTO charges VALUES ($1)", turn.id)
        await stand("acting")
        return "charged"

    try:
        async with connection.transaction():
            return await ctx.once("charge", effect, tx=connection)
    finally:
        await connection.close()
