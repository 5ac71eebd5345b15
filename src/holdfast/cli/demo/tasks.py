"""The handlers of the demo, as an application would write them, and the plan of what is enqueued.

Promises: failures follow fixed rules and the plan is the same in every run but for the prefix of the ids,
so the demo knows every outcome in advance. The workers load `tasks:queue`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast import Context, Reject, TaskQueue

URL_VARIABLE: Final = "HOLDFAST_DEMO_URL"
QUEUE_VARIABLE: Final = "HOLDFAST_DEMO_QUEUE"
FOLDER_VARIABLE: Final = "HOLDFAST_DEMO_FOLDER"
REPAIRED: Final = "partner-is-back"
"""A file of this name in the demo's folder: the partner answers again."""
LEASE_SECONDS: Final = 2.0
WORKERS_MAX: Final = 8
CHARGES: Final = 60
EMAILS: Final = 90
RESIZES: Final = 90
REPORTS: Final = 60
MERGES: Final = 15
FETCHES: Final = 3
"""Parents of each merge."""
IMPORTS: Final = 10
PARSES: Final = 15
BROKEN: Final = 6
"""Parses with a bad payload. Half of them are edited and replayed, the others stay dead letters."""

queue = TaskQueue(
    os.environ.get(URL_VARIABLE, "sqlite://"),
    lease_seconds=LEASE_SECONDS,
    base_retry_delay=0.2,
    max_retry_delay=1.0,
    max_workers=WORKERS_MAX,
)
NAME: Final = os.environ.get(QUEUE_VARIABLE, "demo")


async def busy(n: int, shortest: float = 0.2) -> None:
    """Simulates work. The duration depends on `n` only."""
    await asyncio.sleep(shortest + n * 37 % 50 / 100)


@queue.task(name="demo.charge", queue=NAME, priority="critical")
async def charge(n: int) -> dict[str, int]:
    """Has the highest priority."""
    await busy(n)
    return {"charged": n}


@queue.task(name="demo.email", queue=NAME, priority="high")
async def email(ctx: Context, n: int) -> str:
    """Every fourth mail fails on its first attempt."""
    await busy(n)
    if n % 4 == 0 and ctx.attempt == 1:
        raise ConnectionError("the mail server said 451, try again later")
    return f"mail {n} sent"


@queue.task(name="demo.resize", queue=NAME)
async def resize(ctx: Context, n: int) -> int:
    """Reports progress."""
    await ctx.progress(0.5, "half of the pixels")
    await busy(n, 0.3)
    return n


@queue.task(name="demo.report", queue=NAME, priority="low")
async def report(n: int) -> int:
    """Has the lowest priority."""
    await busy(n, 0.3)
    return n


@queue.task(name="demo.fetch", queue=NAME)
async def fetch(n: int) -> int:
    """Computes a number for a merge."""
    await busy(n)
    return n * n


@queue.task(name="demo.merge", queue=NAME)
async def merge(ctx: Context, n: int) -> int:
    """Adds up the results of its parents."""
    parents = await ctx.parents()
    return sum(parent.result for parent in parents.values())


@queue.task(name="demo.import", queue=NAME, max_attempts=2)
async def import_(n: int) -> int:
    """Fails on every attempt until the partner answers again."""
    await busy(n)
    if not (Path(os.environ.get(FOLDER_VARIABLE, ".")) / REPAIRED).exists():
        raise ConnectionError(f"partner.example refused connection {n}")
    return n


@queue.task(name="demo.publish", queue=NAME)
async def publish(n: int) -> str:
    """Depends on an import, and fails with it."""
    await busy(n)
    return f"import {n} published"


@queue.task(name="demo.parse", queue=NAME)
async def parse(n: int, amount: Any) -> int:
    """Accepts integers only and rejects everything else."""
    await busy(n)
    if not isinstance(amount, int):
        raise Reject(f"amount '{amount}' is not a number")
    return amount


class Plan(NamedTuple):
    """The requests, parents before children, and the expected outcomes."""

    requests: list[dict[str, Any]]
    sums: dict[str, int]
    """Expected results of the merges, by task id."""
    imports: list[str]
    to_edit: list[str]
    to_leave: list[str]

    @property
    def ids(self) -> list[str]:
        return [request["id"] for request in self.requests]


def make_plan(run: str) -> Plan:
    """The plan, with `run` as the prefix of all ids."""
    requests = [
        *_simple(run, "charge", CHARGES),
        *_simple(run, "email", EMAILS),
        *_simple(run, "resize", RESIZES),
        *_simple(run, "report", REPORTS),
    ]
    sums: dict[str, int] = {}
    for n in range(MERGES):
        numbers = [n * FETCHES + k for k in range(FETCHES)]
        requests += [_request(run, "fetch", number) for number in numbers]
        merge = _request(run, "merge", n, depends_on=[_id(run, "fetch", k) for k in numbers])
        requests.append(merge)
        sums[merge["id"]] = sum(number * number for number in numbers)
    imports = _simple(run, "import", IMPORTS)
    requests += imports
    requests += [
        _request(run, "publish", n, depends_on=[parent["id"]]) for n, parent in enumerate(imports)
    ]
    parses = [_parse(run, n) for n in range(PARSES)]
    requests += parses
    broken = [request["id"] for request in parses[:BROKEN]]
    return Plan(
        requests,
        sums,
        [request["id"] for request in imports],
        broken[: BROKEN // 2],
        broken[BROKEN // 2 :],
    )


def _simple(run: str, kind: str, count: int) -> list[dict[str, Any]]:
    return [_request(run, kind, n) for n in range(count)]


def _parse(run: str, n: int) -> dict[str, Any]:
    request = _request(run, "parse", n)
    request["payload"]["amount"] = "twelve" if n < BROKEN else n
    return request


def _request(run: str, kind: str, n: int, **more: Any) -> dict[str, Any]:
    return {"type": f"demo.{kind}", "id": _id(run, kind, n), "payload": {"n": n}, **more}


def _id(run: str, kind: str, n: int) -> str:
    return f"{run}-{kind}-{n:02d}"
