"""An old reader: throughput while a foreign session holds its snapshot, compared with a clean run.

Both run at the same time, each on a separate server under the same load. Other activity of the machine
affects both alike, so their ratio is the cost of the snapshot. They take turns in starting first.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import asyncpg

from proof.endurance.load import Load, last_third, rate, sampled
from proof.endurance.tables import tables
from proof.lab.databases import database
from proof.lab.processes import children, cpu_seconds
from proof.lab.report import say

BAR = 0.9


class OldReader:
    """A session with the server's default settings that reads once and then holds its snapshot."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._runner = asyncio.Runner()

    def __enter__(self) -> None:
        self._runner.run(self._begin())

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()

    async def _begin(self) -> None:
        self._connection = await asyncpg.connect(self._url)
        await self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await self._connection.fetchval("SELECT count(*) FROM holdfast_node")


def run(*, servers: tuple[Any, Any], log: Path, seconds: float, rounds: int) -> dict[str, Any]:
    """Runs both at once, `rounds` times."""
    pairs = []
    for n in range(rounds):
        pairs.append(_pair(servers if n % 2 == 0 else servers[::-1], log, seconds))
        say(f"held / clean: {pairs[-1]['ratio']} at the end, {pairs[-1]['cpu_ratio']} by CPU")
    ratio = median(pair["ratio"] for pair in pairs)
    return {
        "bar": BAR,
        "seconds": seconds,
        "rounds": rounds,
        "ratio": round(ratio, 3),
        "cpu_ratio": round(median(pair["cpu_ratio"] for pair in pairs), 3),
        "reached": ratio >= BAR,
        "pairs": pairs,
    }


def _pair(servers: tuple[Any, Any], log: Path, seconds: float) -> dict[str, Any]:
    """A clean window on the first server, a held one on the second."""
    with ExitStack() as stack:
        urls = [stack.enter_context(database(server, "reader")) for server in servers]
        loads = [stack.enter_context(Load(url, log)) for url in urls]
        stack.enter_context(OldReader(urls[1]))
        samples = sampled(loads, seconds, lambda n: _look(servers[n], loads[n], urls[n]))
    clean, held = (_window(each) for each in samples)
    return {
        "ratio": round(held["rate_at_end"] / clean["rate_at_end"], 3),
        "cpu_ratio": round(clean["cpu_ms_at_end"] / held["cpu_ms_at_end"], 3),
        "clean": clean,
        "held": held,
    }


def _look(server: Any, load: Load, url: str) -> dict[str, Any]:
    """Statistics of the whole server, including ended sessions, as autovacuum sees them."""
    pid = server.pid
    cpu = cpu_seconds(pid) + sum(cpu_seconds(each) for each in children(pid))
    return {"tables": tables(url), "cpu_seconds": round(load.cpu_seconds() + cpu, 2)}


def _window(samples: list[dict[str, Any]]) -> dict[str, Any]:
    end = last_third(samples)
    return {
        "rate_at_end": round(rate(end), 1),
        "rate_in_all": round(rate(samples), 1),
        "cpu_ms_at_end": round(_cpu_ms(end), 4),
        "samples": samples,
    }


def _cpu_ms(samples: list[dict[str, Any]]) -> float:
    """CPU time of all processes per task."""
    first, last = samples[0], samples[-1]
    used = last["cpu_seconds"] - first["cpu_seconds"]
    return float(used * 1_000 / (last["ran"] - first["ran"]))
