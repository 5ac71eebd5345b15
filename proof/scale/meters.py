"""What a piece of work cost: CPU time of the processes and of the server, write-ahead log, commits, bytes.

CPU time, bytes and counts hold on a noisy machine. Seconds do not: they are used as ratios only.
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import asyncpg
import msgspec

from proof.lab.databases import query
from proof.lab.processes import cpu_seconds, start, stop, tree
from proof.lab.servers import Postgres
from proof.scale.process import Options

READY_SECONDS = 60.0
WORK_SECONDS = 600.0
SAMPLE_SECONDS = 0.02

COUNTS = """
SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal, d.xact_commit AS commits,
    (SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal') AS syncs,
    (SELECT coalesce(sum(fsync_time), 0) FROM pg_stat_io WHERE object = 'wal') AS sync_ms
FROM pg_stat_database d WHERE d.datname = current_database()
"""
WAITS = """
SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU') FROM pg_stat_activity
WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run cost in all."""

    n: int
    """Pieces of work."""
    seconds: float
    client_cpu: float
    """Seconds of CPU of the processes that did the work."""
    server_cpu: float
    """Seconds of CPU of PostgreSQL, all of its processes."""
    wal: float
    commits: float
    syncs: float
    sync_ms: float
    """Milliseconds of a sync of the log, mean."""
    waits: Counter[str] = field(default_factory=Counter)
    """Samples of what active backends waited for."""

    def row(self) -> dict[str, float]:
        """For each piece of work: microseconds of CPU, bytes of log, commits and syncs."""
        return {
            "n": self.n,
            "client_us": round(self.client_cpu / self.n * 1e6, 1),
            "server_us": round(self.server_cpu / self.n * 1e6, 1),
            "wal_bytes": round(self.wal / self.n),
            "commits": round(self.commits / self.n, 4),
            "syncs": round(self.syncs / self.n, 4),
            "sync_ms": round(self.sync_ms, 3),
            "per_second": round(self.n / self.seconds),
        }


class Worker:
    """A process of a measurement that waits for its start."""

    def __init__(self, role: str, options: Options) -> None:
        env = {"SCALE_OPTIONS": msgspec.json.encode(options).decode()}
        self.role = role
        self.process = start([sys.executable, "-m", "proof.scale.process", role], env=env)
        self._line(READY_SECONDS)

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def figures(self) -> dict[str, float]:
        found: dict[str, float] = json.loads(self._line(WORK_SECONDS))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        stop(self.process, 20)

    def _line(self, seconds: float) -> bytes:
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise RuntimeError(f"the {self.role} did not answer in {seconds:g} s")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.role} ended: see its output above")
        return line


def server_seconds(postgres: Postgres | None) -> float:
    """CPU time of all processes of a server, ended ones included."""
    if postgres is None:
        return 0.0
    first, *below = tree(postgres.pid)
    return cpu_seconds(first) + sum(cpu_seconds(pid) for pid in below)


def live_seconds(postgres: Postgres | None) -> float:
    """CPU time of the processes of a server that run now, exactly: for little work."""
    return sum(map(nanoseconds, tree(postgres.pid))) / 1e9 if postgres else 0.0


def counts(postgres: Postgres | None, url: str) -> list[float]:
    if postgres is None:
        return [0.0, 0.0, 0.0, 0.0]
    return [float(value) for value in query(url, "SELECT pg_stat_force_next_flush()", COUNTS)[0]]


def measure(
    postgres: Postgres | None, roles: list[tuple[str, Options]], *, sampled: bool = False
) -> Spent:
    """Runs the processes at the same time, from one start to the last end."""
    url = roles[0][1].url
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(role, options)) for role, options in roles]
        before, cpu = counts(postgres, url), server_seconds(postgres)
        started_at = time.monotonic()
        for worker in workers:
            worker.go()
        waits, own = asyncio.run(_sample(url, workers)) if sampled else (Counter[str](), 0.0)
        figures = [worker.figures() for worker in workers]
        seconds = time.monotonic() - started_at
        spent = server_seconds(postgres) - cpu - own
    # Backends report their counts when they end, at the latest.
    wal, commits, syncs, sync_ms = (
        b - a for a, b in zip(before, counts(postgres, url), strict=True)
    )
    return Spent(
        n=int(sum(found["n"] for found in figures)),
        seconds=seconds,
        client_cpu=sum(found["cpu"] for found in figures),
        server_cpu=spent,
        wal=wal,
        commits=commits,
        syncs=syncs,
        sync_ms=sync_ms / syncs if syncs else 0.0,
        waits=waits,
    )


async def _sample(url: str, workers: list[Worker]) -> tuple[Counter[str], float]:
    """What active backends wait for, until the first process has ended its work. And the CPU of asking."""
    waits: Counter[str] = Counter()
    outputs = [worker.process.stdout.fileno() for worker in workers if worker.process.stdout]
    connection = await asyncpg.connect(url)
    try:
        while not select.select(outputs, [], [], 0)[0]:
            waits.update(row[0] for row in await connection.fetch(WAITS))
            await asyncio.sleep(SAMPLE_SECONDS)
        own = nanoseconds(connection.get_server_pid()) / 1e9
    finally:
        await connection.close()
    return waits, own


def own_memory(pid: int) -> float:
    """MB that only this process has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return (kb["Private_Clean"] + kb["Private_Dirty"]) / 1024


def backends(url: str) -> list[int]:
    """Process ids of the sessions of a database, without the asking one."""
    rows: list[Any] = query(
        url,
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid",
    )
    return [int(row[0]) for row in rows]


def nanoseconds(pid: int) -> int:
    """CPU time of one process, exactly."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
