"""The handlers of the demo, as an application would write them; its workers load `tasks:queue`.

Promises: what fails does so by a rule, never by chance, so that the demo can say what must come out.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

from holdfast import Context, Reject, TaskQueue

URL_VARIABLE: Final = "HOLDFAST_DEMO_URL"
QUEUE_VARIABLE: Final = "HOLDFAST_DEMO_QUEUE"
FOLDER_VARIABLE: Final = "HOLDFAST_DEMO_FOLDER"
REPAIRED: Final = "partner-is-back"
"""A file of this name in the demo's folder means that the partner answers again."""
LEASE_SECONDS: Final = 2.0
WORKERS_MAX: Final = 8

queue = TaskQueue(
    os.environ.get(URL_VARIABLE, "sqlite://"),
    lease_seconds=LEASE_SECONDS,
    base_retry_delay=0.2,
    max_retry_delay=1.0,
    max_workers=WORKERS_MAX,
)
NAME: Final = os.environ.get(QUEUE_VARIABLE, "demo")


async def busy(n: int, shortest: float = 0.2) -> None:
    """Pretends to work for a while that depends on the number only."""
    await asyncio.sleep(shortest + n * 37 % 50 / 100)


@queue.task(name="demo.charge", queue=NAME, priority="critical")
async def charge(n: int) -> dict[str, int]:
    """Money: always first."""
    await busy(n)
    return {"charged": n}


@queue.task(name="demo.email", queue=NAME, priority="high")
async def email(n: int, ctx: Context) -> str:
    """One mail in four is refused at the first attempt."""
    await busy(n)
    if n % 4 == 0 and ctx.attempt == 1:
        raise ConnectionError("the mail server said 451, try again later")
    return f"mail {n} sent"


@queue.task(name="demo.resize", queue=NAME)
async def resize(n: int, ctx: Context) -> int:
    """Says how far it is."""
    await ctx.progress(0.5, "half of the pixels")
    await busy(n, 0.3)
    return n


@queue.task(name="demo.report", queue=NAME, priority="low")
async def report(n: int) -> int:
    """Can wait."""
    await busy(n, 0.3)
    return n


@queue.task(name="demo.fetch", queue=NAME)
async def fetch(n: int) -> int:
    """A number that a merge will need."""
    await busy(n)
    return n * n


@queue.task(name="demo.merge", queue=NAME)
async def merge(n: int, ctx: Context) -> int:
    """Adds up the results of the tasks that it waited for."""
    parents = await ctx.parents()
    return sum(parent.result for parent in parents.values())


@queue.task(name="demo.import", queue=NAME, max_attempts=2)
async def import_(n: int) -> int:
    """Fails until the partner is back, whatever the number of attempts."""
    await busy(n)
    if not (Path(os.environ.get(FOLDER_VARIABLE, ".")) / REPAIRED).exists():
        raise ConnectionError(f"partner.example refused connection {n}")
    return n


@queue.task(name="demo.publish", queue=NAME)
async def publish(n: int) -> str:
    """Waits for an import, and fails with it."""
    await busy(n)
    return f"import {n} published"


@queue.task(name="demo.parse", queue=NAME)
async def parse(n: int, amount: Any) -> int:
    """Takes numbers only; anything else can never succeed."""
    await busy(n)
    if not isinstance(amount, int):
        raise Reject(f"amount '{amount}' is not a number")
    return amount
