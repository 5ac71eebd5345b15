"""The measurements: what a task, an event, a watcher, a worker and a connection cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from proof.endurance.tables import tables
from proof.lab.databases import database, query
from proof.lab.report import say
from proof.lab.servers import STOCK, Postgres
from proof.scale import meters
from proof.scale.meters import measure
from proof.scale.process import HINTS, Options

PRODUCERS = {"one by one": "one", "64 callers": "callers", "bulk of 1,000": "bulk"}
KINDS = ("noop", "output", "progress")
SETTLE_SECONDS = 12.0
"""Until an idle process is measured: a backend reports its counts after ten seconds without work."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each is measured."""

    few: int = 3_000
    """Tasks that are handed in one by one."""
    many: int = 20_000
    idle_seconds: float = 20.0
    writes: int = 300
    """Tasks of each writing process."""
    writers: tuple[int, ...] = (1, 2, 4, 8)
    delays: tuple[float, ...] = (0.001, 0.005)
    """Sync times of the writers' disk, in seconds."""


QUICK = Sizes(few=60, many=1_000, idle_seconds=0.5, writes=15, writers=(1, 2), delays=(0.005,))


@dataclass(slots=True)
class Lab:
    """Where the stores are."""

    root: Path
    postgres: Postgres
    sizes: Sizes
    number: int = 0

    @contextmanager
    def store(self, kind: str) -> Iterator[tuple[str, Postgres | None]]:
        """An empty store."""
        self.number += 1
        if kind == "sqlite":
            yield f"sqlite:///{self.root / f'scale{self.number}.db'}", None
            return
        with database(self.postgres, f"scale{self.number}") as url:
            yield url, self.postgres


def tasks(lab: Lab, kind: str) -> dict[str, Any]:
    """A task: handed in in three ways, run in three kinds."""
    found: dict[str, Any] = {}
    for name, role in PRODUCERS.items():
        n = lab.sizes.few if role == "one" else lab.sizes.many
        with lab.store(kind) as (url, server):
            found[f"enqueue, {name}"] = shown(measure(server, [(role, Options(url=url, n=n))]))
            if role == "bulk":
                found["waiting"] = size(url, n)
            found[f"drain, {name}"] = shown(measure(server, [("drain", Options(url=url, n=n))]))
            found[f"finished, {name}"] = size(url, n)
            if role != "one":
                found[f"watch, {name}"] = shown(measure(server, [("watch", Options(url=url))]))
            found[f"prune, {name}"] = shown(measure(server, [("prune", Options(url=url, n=n))]))
    for task in KINDS[1:]:
        n = lab.sizes.many // 10
        with lab.store(kind) as (url, server):
            measure(server, [("bulk", Options(url=url, n=n, kind=task))])
            found[f"drain, {task}"] = shown(measure(server, [("drain", Options(url=url, n=n))]))
    return found


def shown(spent: meters.Spent) -> dict[str, float]:
    row = spent.row()
    say(f"  {row}")
    return row


def size(url: str, n: int) -> dict[str, int]:
    """Bytes of each task, after a vacuum or a checkpoint."""
    if url.startswith("sqlite"):
        query(url, "PRAGMA wal_checkpoint(TRUNCATE)")
        pages, page = (query(url, f"PRAGMA {name}")[0][0] for name in ("page_count", "page_size"))
        return {"bytes": round(pages * page / n)}
    query(url, "VACUUM")
    return {
        f"{name.removeprefix('holdfast_')}_{part}": round(found[part] / n)
        for name, found in sorted(tables(url).items())
        for part in ("bytes", "index_bytes")
    }


def feed(lab: Lab) -> dict[str, Any]:
    """What is done under the lock of the feed: giving records their offsets, and counting them."""
    with lab.store("postgres") as (url, _):
        options = Options(url=url, n=lab.sizes.few // 3)
        with ExitStack() as stack:
            producers = [stack.enter_context(meters.Worker("one", options)) for _ in range(3)]
            for producer in producers:
                producer.go()
            for producer in producers:
                producer.figures()
            # A process that ends gives all records their offsets, so these must not end yet.
            found = asyncio.run(_locked(url))
    return found


async def _locked(url: str) -> dict[str, Any]:
    connection = await asyncpg.connect(url, server_settings={"enable_seqscan": "off"})
    pid = connection.get_server_pid()
    records = await connection.fetchval("SELECT count(*) FROM holdfast_feed")
    lsn = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
    found = {}
    for function in ("holdfast_number", "holdfast_count"):
        wal, cpu = await connection.fetchval(lsn), meters.nanoseconds(pid)
        await connection.fetchval(f"SELECT {function}(50000)")
        spent, wal = meters.nanoseconds(pid) - cpu, await connection.fetchval(lsn) - wal
        found[function] = {
            "records": records,
            "us": round(spent / records / 1e3, 2),
            "wal_bytes": round(float(wal) / records),
        }
        say(f"  {function}: {found[function]}")
    await connection.close()
    return found


def idle(lab: Lab, kind: str) -> dict[str, Any]:
    """Processes that have nothing to do: shares of a core, commits a second."""
    found = {}
    for role in ("idle_worker", "idle_watcher"):
        with lab.store(kind) as (url, server):
            measure(server, [("one", Options(url=url, n=1))])
            with meters.Worker(role, Options(url=url, seconds=lab.sizes.idle_seconds)) as worker:
                time.sleep(min(SETTLE_SECONDS, lab.sizes.idle_seconds))
                before, cpu = meters.counts(server, url), meters.live_seconds(server)
                worker.go()
                figures = worker.figures()
                cpu = meters.live_seconds(server) - cpu
                commits = meters.counts(server, url)[1] - before[1]
                sessions = meters.backends(url) if server else []
                memory = [meters.own_memory(pid) for pid in sessions]
            seconds = figures["seconds"]
            found[role] = {
                "client_percent": round(figures["cpu"] / seconds * 100, 3),
                "server_percent": round(cpu / seconds * 100, 3),
                "commits_per_second": round(commits / seconds, 2),
                "connections": len(sessions),
                "backend_mb": [round(mb, 1) for mb in memory],
            }
            say(f"  {role}: {found[role]}")
    return found


def writers(lab: Lab) -> list[dict[str, Any]]:
    """Processes with one caller each, on a disk whose sync takes a known time; with and without hints."""
    found = []
    for delay in lab.sizes.delays:
        with slow_server(delay) as server:
            for processes in lab.sizes.writers:
                for hints in HINTS:
                    found.append(_writers(lab, server, delay, processes, hints=hints))
                    say(f"  {found[-1]}")
    return found


def _writers(
    lab: Lab, server: Postgres, delay: float, processes: int, *, hints: str
) -> dict[str, Any]:
    with database(server, "writers") as url:
        options = Options(url=url, n=lab.sizes.writes, hints=hints)
        measure(server, [("one", Options(url=url, n=10))])
        spent = measure(server, [("one", options)] * processes, sampled=True)
    samples = sum(spent.waits.values()) or 1
    return {
        "disk_ms": delay * 1e3,
        "processes": processes,
        "hints": hints,
        **spent.row(),
        "waits": {name: round(n / samples, 2) for name, n in spent.waits.most_common(4)},
    }


@contextmanager
def slow_server(delay: float) -> Iterator[Postgres]:
    """A server in memory whose syncs take this long: the leader of a group of commits waits before the sync,
    while it holds the lock of the log, as it would with a slow disk. The wait does not depend on the load of
    the machine."""
    wait = str(round(delay * 1e6))
    with Postgres(preset=STOCK, commit_delay=wait, commit_siblings="0") as server:
        yield server
