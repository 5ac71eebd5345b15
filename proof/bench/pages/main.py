"""Measures the Control Center in a real browser: ``python -m proof.bench.pages.main [--quick]``.

One PostgreSQL with 1,000,000 tasks and one gateway with 1,000 simulated hosts on SQLite, one after the other.
Prints a table of figures with their bounds and the load of the machine. ``--quick`` is the short form: small
sizes, to see that every figure can be taken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from proof.bench.gateway import Gateway
from proof.bench.pages import figures
from proof.bench.pages.browser import opened
from proof.bench.pages.figures import Figure
from proof.bench.pages.million import fill
from proof.lab.servers import Postgres

URL_VARIABLE = "HOLDFAST_URL"
WORKERS = "proof.bench.pages.worker:queue"


@dataclass(frozen=True, slots=True)
class Sizes:
    tasks: int = 1_000_000
    rounds: int = 9
    events: int = 100
    tabs: int = 20
    hosts: int = 1_000
    cells: int = 10_000
    live_seconds: float = 20.0


QUICK = Sizes(tasks=5_000, rounds=2, events=5, tabs=3, hosts=20, cells=1_000, live_seconds=1.0)


async def measure(sizes: Sizes) -> list[Figure]:
    """All figures."""
    found = [figures.script_bytes()]
    async with opened() as browser:
        with Postgres() as server:
            dsn = os.environ[URL_VARIABLE] = server.dsn()
            await asyncio.to_thread(_migrate, dsn)
            await fill(dsn, sizes.tasks)
            gateway = Gateway(dsn, "--workers", WORKERS)
            try:
                found += await figures.first_list(browser, gateway.url, sizes.rounds)
                found.append(await figures.event_to_pixel(browser, gateway.url, sizes.events))
                found.append(await figures.streams(browser, gateway.url, sizes.tabs))
            finally:
                gateway.stop()
        with TemporaryDirectory() as folder:
            store = f"sqlite:///{Path(folder) / 'pages.db'}"
            gateway = Gateway(store, "--simulated-hosts", str(sizes.hosts))
            try:
                found.append(await figures.matrix(browser, gateway.url, sizes.cells, sizes.rounds))
                found.append(
                    await figures.live_job(browser, gateway.url, sizes.hosts, sizes.live_seconds)
                )
            finally:
                gateway.stop()
    return found


def _migrate(dsn: str) -> None:
    command = [sys.executable, "-m", "holdfast", "db", "migrate", "--url", dsn]
    subprocess.run(command, check=True, capture_output=True)


def table(found: list[Figure]) -> str:
    lines = ["| figure | measured | bound | |", "|---|---|---|---|"]
    for one in found:
        mark = "" if one.value <= one.bound else "MISSED "
        lines.append(
            f"| {one.name} | {one.value:.1f} {one.unit} | {one.bound:g} | {mark}{one.note} |"
        )
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return "\n".join([*lines, "", f"load of {os.cpu_count()} cores: {load}"])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    given = parser.parse_args(argv)
    sys.stdout.write(table(asyncio.run(measure(QUICK if given.quick else Sizes()))) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
