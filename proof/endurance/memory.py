"""Flat memory: the mixed load at a fixed pace, on both stores at once, with every process sampled."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from proof.endurance.judge import growth, per_hour
from proof.endurance.load import process_of
from proof.lab.processes import Reporting, children, memory, tree
from proof.lab.report import say
from proof.lab.servers import Postgres

Sample = dict[str, Any]
FIGURES = ("own_mb", "rss_mb", "blocks", "tasks", "files", "threads")
POSTGRES_WORKERS = 2
KEPT = 60


class Watched:
    """A process under a name."""

    def __init__(self, name: str, process: Reporting) -> None:
        self.name = name
        self.process = process


def run(
    *,
    root: Path,
    log: Path,
    postgres: Postgres | None,
    stores: tuple[str, ...],
    minutes: float,
    pace: float,
) -> dict[str, Any]:
    """Samples of the whole run, and the verdict."""
    watched = _start(root, log, postgres, stores, pace)
    every = max(1.0, min(10.0, minutes * 60 / 60))
    samples: list[Sample] = []
    try:
        for each in watched:
            each.process.wait_ready()
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < minutes * 60:
            time.sleep(every)
            samples.append(_sample(watched, postgres, passed))
            _progress(samples[-1], minutes)
        counts = {each.name: each.process.listen() for each in watched}
    finally:
        for each in watched:
            each.process.stop()
    return {
        "minutes": round(minutes, 1),
        "seconds_between_samples": every,
        "cores_used": _cores(samples),
        "counts": counts,
        "processes": _verdicts(samples),
        "samples": _kept(samples),
    }


def _start(
    root: Path, log: Path, postgres: Postgres | None, stores: tuple[str, ...], pace: float
) -> list[Watched]:
    watched = []
    if postgres is not None and "postgres" in stores:
        common: dict[str, Any] = {"url": postgres.dsn("memory"), "round": pace}
        watched += [
            Watched(f"postgres worker {n + 1}", process_of("worker", log, **common))
            for n in range(POSTGRES_WORKERS)
        ]
        watched.append(Watched("postgres producer", process_of("mixed", log, **common)))
    if "sqlite" in stores:
        url = f"sqlite:///{root / 'memory.db'}"
        watched.append(Watched("sqlite embedded", process_of("embedded", log, url=url, round=pace)))
    return watched


def _sample(watched: list[Watched], postgres: Postgres | None, passed: float) -> Sample:
    processes: dict[str, dict[str, float]] = {}
    for each in watched:
        own = memory(each.process.pid)
        if own is not None:
            processes[each.name] = own | each.process.listen()
        below = [m for pid in tree(each.process.pid)[1:] if (m := memory(pid))]
        if below:
            processes[f"{each.name}, handlers' processes"] = _summed(below)
    if postgres is not None:
        found = [m for pid in _backends(postgres.pid, "memory") if (m := memory(pid))]
        if found:
            processes["postgres server, mean of its sessions"] = {
                key: sum(m[key] for m in found) / len(found) for key in found[0]
            } | {"cpu_seconds": sum(m["cpu_seconds"] for m in found), "sessions": len(found)}
    return {"seconds": round(passed, 1), "processes": processes}


def _backends(postmaster: int, database: str) -> list[int]:
    """The server's sessions in one database."""
    return [pid for pid, name in children(postmaster).items() if f" {database} " in name]


def _kept(samples: list[Sample]) -> list[Sample]:
    """Keeps about one sample per minute for the report."""
    return [
        {
            "seconds": sample["seconds"],
            "processes": {
                name: {figure: round(value, 2) for figure, value in figures.items()}
                for name, figures in sample["processes"].items()
            },
        }
        for sample in samples[:: max(1, len(samples) // KEPT)]
    ]


def _summed(found: list[dict[str, float]]) -> dict[str, float]:
    return {key: sum(each[key] for each in found) for key in found[0]}


def _cores(samples: list[Sample]) -> float:
    first, last = samples[0], samples[-1]
    used: float = sum(
        now["cpu_seconds"] - first["processes"].get(name, now)["cpu_seconds"]
        for name, now in last["processes"].items()
    )
    return round(used / float(last["seconds"] - first["seconds"]), 2)


def _verdicts(samples: list[Sample]) -> dict[str, Any]:
    columns: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for sample in samples:
        for name, figures in sample["processes"].items():
            for figure in FIGURES:
                if figure in figures:
                    columns[name][figure].append((sample["seconds"], figures[figure]))
    return {
        name: {
            figure: _verdict(figure, points)
            for figure, points in figures.items()
            if len(points) > 7
        }
        for name, figures in columns.items()
    }


def _verdict(figure: str, points: list[tuple[float, float]]) -> dict[str, Any]:
    seconds, values = [p[0] for p in points], [p[1] for p in points]
    early, late, is_flat = growth(values, figure)
    return {
        "second_quarter": round(early, 1),
        "last_quarter": round(late, 1),
        "per_hour": round(per_hour(seconds, values), 1),
        "flat": is_flat,
    }


def _progress(sample: Sample, minutes: float) -> None:
    own = ", ".join(f"{name} {m['own_mb']:.1f}" for name, m in sample["processes"].items())
    say(f"memory {sample['seconds'] / 60:.1f}/{minutes:g} min, own MB: {own}")
