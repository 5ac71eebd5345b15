"""An old reader: throughput while somebody else's session holds its snapshot, beside clean windows.

Windows alternate (clean, held, held, clean, ...), each on a fresh database under the same load.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import asyncpg

from endurance.databases import database, tables
from endurance.load import Load, last_third, rate
from endurance.procs import children, cpu_seconds
from endurance.report import say

BAR = 0.9


class OldReader:
    """A session with the server's own settings that reads once and then holds its snapshot."""

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


def run(*, postgres: Any, log: Path, seconds: float, rounds: int) -> dict[str, Any]:
    """Clean and held windows in turn."""
    windows = [
        _window(postgres, log, held=held, seconds=seconds)
        for n in range(rounds)
        for held in ((False, True) if n % 2 == 0 else (True, False))
    ]
    clean, held = _of(windows, "rate_at_end")
    cheap, dear = _of(windows, "cpu_ms_per_task_at_end")
    ratio = median(held) / median(clean)
    return {
        "bar": BAR,
        "seconds": seconds,
        "rounds": rounds,
        "ratio": round(ratio, 3),
        "ratios_of_pairs": [round(b / a, 3) for a, b in zip(clean, held, strict=True)],
        "cpu_ratio": round(median(cheap) / median(dear), 3),
        "reached": ratio >= BAR,
        "windows": windows,
    }


def _of(windows: list[dict[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """A figure of the clean windows, and of the held ones."""
    clean, held = ([w[key] for w in windows if w["held"] is kind] for kind in (False, True))
    return clean, held


def _window(postgres: Any, log: Path, *, held: bool, seconds: float) -> dict[str, Any]:
    with ExitStack() as stack:
        url = stack.enter_context(database(postgres, "reader"))
        load = stack.enter_context(Load(url, log))
        if held:
            stack.enter_context(OldReader(url))
        samples = load.samples(
            seconds,
            lambda: {
                "tables": tables(url),
                "cpu_seconds": round(load.cpu_seconds() + _server_cpu(postgres.proc.pid), 2),
            },
        )
    end = last_third(samples)
    say(
        f"{'held ' if held else 'clean'} {rate(end):8.0f}/s at the end, {rate(samples):.0f}/s in all"
    )
    return {
        "held": held,
        "rate_at_end": round(rate(end), 1),
        "rate_in_all": round(rate(samples), 1),
        "cpu_ms_per_task_at_end": round(_cpu_ms(end), 4),
        "samples": samples,
    }


def _server_cpu(postmaster: int) -> float:
    """All of the server, also what has ended, as autovacuum does."""
    return cpu_seconds(postmaster) + sum(cpu_seconds(pid) for pid in children(postmaster))


def _cpu_ms(samples: list[dict[str, Any]]) -> float:
    """What a task costs everybody: says more than its rate where others use the machine too."""
    first, last = samples[0], samples[-1]
    used = last["cpu_seconds"] - first["cpu_seconds"]
    return float(used * 1_000 / (last["ran"] - first["ran"]))
