"""Processes of a run, and saturating load: an endless backlog, and the workers that drain it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from proof.lab.processes import ROOT, Reporting, cpu_seconds

WORKERS = 2
BACKLOG = 20_000
WARM_SECONDS = 5.0
SAMPLE_SECONDS = 5.0
FOR_EVER = 604_800
"""In seconds: nothing is pruned during a run."""


def process_of(role: str, log: Path, **settings: object) -> Reporting:
    """Starts one `proof.endurance.process`."""
    env = {f"ENDURANCE_{name.upper()}": str(value) for name, value in settings.items()}
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    return Reporting("proof.endurance.process", role, log, env | path)


class Load:
    """On PostgreSQL a feeder and worker processes; on SQLite everything in one process."""

    def __init__(self, url: str, log: Path, *, keep: float = FOR_EVER) -> None:
        self.url = url
        self._log = log
        self._common: dict[str, Any] = {
            "url": url,
            "tell": 1,
            "collect": 0,
            "workers": 100,
            "keep": keep,
            "backlog": BACKLOG,
        }
        self._processes: list[Reporting] = []

    def __enter__(self) -> Self:
        if self.url.startswith("sqlite"):
            self._start("flood")
        else:
            # One after the other: the first creates the tables.
            self._start("feeder")
            for _ in range(WORKERS):
                self._start("worker")
        time.sleep(WARM_SECONDS)
        return self

    def _start(self, role: str) -> None:
        process = process_of(role, self._log, **self._common)
        self._processes.append(process)
        process.wait_ready()

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.stop()

    def cpu_seconds(self) -> float:
        """CPU time of its processes so far."""
        return sum(cpu_seconds(process.pid) for process in self._processes)

    def ran(self) -> float:
        """Tasks run so far."""
        return sum(process.listen().get("ran", 0) for process in self._processes)


def sampled(
    loads: list[Load], seconds: float, look: Callable[[int], dict[str, Any]]
) -> list[list[dict[str, Any]]]:
    """For each load: how many tasks were run at which time, and what `look` returned about its store
    then."""
    started_at = time.monotonic()
    samples: list[list[dict[str, Any]]] = [[] for _ in loads]
    while time.monotonic() - started_at < seconds:
        for n, load in enumerate(loads):
            passed = round(time.monotonic() - started_at, 2)
            samples[n].append({"seconds": passed, "ran": load.ran(), **look(n)})
        time.sleep(min(SAMPLE_SECONDS, seconds / 10))
    return samples


def rate(samples: list[dict[str, Any]]) -> float:
    """Tasks per second from the first sample to the last."""
    first, last = samples[0], samples[-1]
    return float((last["ran"] - first["ran"]) / (last["seconds"] - first["seconds"]))


def last_third(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return samples[-1 - len(samples) // 3 :]
