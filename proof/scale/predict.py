"""The model with the measured costs: which resource ends first, and how far the model is off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.bus.postgres import HINT_COST
from proof.scale.model import Run
from proof.scale.parts import Load, Machine, Outcome

CORES: Final = (4, 16, 64)
SYNCS: Final = (0.0001, 0.001, 0.005)
PRODUCERS: Final = (1, 4, 16, 64)
"""Processes that hand in tasks. With as many workers, 128 processes: up to 1,280 connections."""
WORKERS_MAX: Final = 64
TASKS: Final = {"one by one": 1, "64 callers": 64, "bulk of 1,000": 1_000}
"""Ways of handing in, with the tasks of one commit."""
FULL: Final = 0.93
"""A resource with this use has ended: the rest is the variance of the steps."""
STEADY: Final = 1.05
BEHIND_MAX: Final = 1.0
VIRTUAL_SECONDS: Final = {1: 1.0, 64: 1.5, 1_000: 3.0}
SYNCS_LEAST: Final = 2_000
"""Syncs in a run: at first all processes wait in the same line."""
NAMES: Final = ("hint lock", "feed lock", "cores", "log")
VALIDATION_CORES: Final = 2
VALIDATION_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class End:
    """Where a machine ends with one way of handing in."""

    way: str
    machine: Machine
    producers: int
    workers: int
    outcome: Outcome
    first: str
    """The resource that ends first; `processes` when none does."""


def load_of(found: dict[str, Any], way: str, producers: int, *, hints: str = "rationed") -> Load:
    """The measured costs of one way of handing in. What a worker costs was measured with few records, so that
    the lock of the feed is not counted twice."""
    costs, feed = found["tasks on postgres"], found["feed"]
    enqueue, drain = costs[f"enqueue, {way}"], costs["drain, bulk of 1,000"]
    prune, watch = costs[f"prune, {way}"], costs["watch, bulk of 1,000"]
    return Load(
        producers=producers,
        tasks=TASKS[way],
        client=enqueue["client_us"] / 1e6,
        server=enqueue["server_us"] / 1e6,
        wal=enqueue["wal_bytes"],
        workers=min(producers, WORKERS_MAX),
        run_client=drain["client_us"] / 1e6,
        run_server=drain["server_us"] / 1e6,
        run_wal=drain["wal_bytes"],
        number=feed["holdfast_number"]["us"] / 1e6,
        count=feed["holdfast_count"]["us"] / 1e6,
        feed_wal=feed["holdfast_number"]["wal_bytes"],
        prune=prune["server_us"] / 1e6,
        prune_wal=prune["wal_bytes"],
        hints=hints != "none",
        hint_cost=HINT_COST if hints == "rationed" else 0.0,
        wake=wake(found) / 1e6,
        watchers=1,
        watch=watch["server_us"] / 1e6,
    )


def wake(found: dict[str, Any]) -> float:
    """Microseconds that a NOTIFY costs for each process that listens."""
    points = {(p["disk_ms"], p["processes"], p["hints"]): p for p in found["writers"]}
    disk, processes = max(key[:2] for key in points)
    with_, without = (points[disk, processes, hints] for hints in ("always", "none"))
    more = float(with_["server_us"]) - float(without["server_us"])
    return max(0.0, more / int(processes))


def first_of(outcome: Outcome) -> str:
    """The resource that ends first."""
    if outcome.behind > BEHIND_MAX:
        return "feed lock"
    full = [name for name in NAMES if outcome.use[name] >= FULL]
    return full[0] if full else "processes"


def ends(found: dict[str, Any], *, quick: bool = False) -> list[End]:
    """For each machine and way of handing in, the fewest processes that reach its highest rate."""
    machines = [Machine(cores, sync) for cores in CORES for sync in SYNCS]
    return [
        end_of(found, way, machine, quick=quick)
        for machine in (machines[:1] if quick else machines)
        for way in TASKS
    ]


def end_of(found: dict[str, Any], way: str, machine: Machine, *, quick: bool = False) -> End:
    best: End | None = None
    for producers in PRODUCERS[:2] if quick else PRODUCERS:
        least = SYNCS_LEAST * machine.sync_seconds
        seconds = 0.2 if quick else max(VIRTUAL_SECONDS[TASKS[way]], least)
        load = load_of(found, way, producers)
        outcome = Run(machine, load).result(seconds)
        end = End(way, machine, producers, load.workers, outcome, first_of(outcome))
        if best is None or outcome.tasks > best.outcome.tasks * STEADY:
            best = end
        elif best.first == "processes":
            best = replace(best, first=end.first)
    assert best
    return best


@dataclass(frozen=True, slots=True)
class Checked:
    """A measured point beside the model's."""

    disk_ms: float
    processes: int
    hints: str
    measured: float
    modelled: float
    """Tasks a second."""
    syncs: float
    modelled_syncs: float
    """For each task. These hold on a busy machine."""

    @property
    def error(self) -> float:
        return self.modelled / self.measured - 1.0


def validated(found: dict[str, Any]) -> list[Checked]:
    """The writers that were measured, and the model of the same: producers on the cores of the server, on a
    disk whose sync takes as long as that of a lone process did. On a machine that others use, this is longer
    than the chosen time. The points of more processes are predicted."""
    checked = []
    for point in found["writers"]:
        if point["processes"] == 1:
            continue
        load = load_of(found, "one by one", point["processes"], hints=point["hints"])
        load = replace(load, workers=0, watchers=0, prune=0.0, number=0.0)
        sync = 1.0 / lone_rate(found, point["disk_ms"]) - load.client - load.server
        machine = Machine(VALIDATION_CORES, sync, gathers=True, shared=True)
        outcome = Run(machine, load).result(VALIDATION_SECONDS)
        checked.append(
            Checked(
                disk_ms=point["disk_ms"],
                processes=point["processes"],
                hints=point["hints"],
                measured=point["per_second"],
                modelled=outcome.given,
                syncs=point["syncs"],
                modelled_syncs=outcome.syncs / outcome.given,
            )
        )
    return checked


def lone_rate(found: dict[str, Any], disk_ms: float) -> float:
    """Commits a second of one process, whatever its hints."""
    alone = [p for p in found["writers"] if (p["disk_ms"], p["processes"]) == (disk_ms, 1)]
    return len(alone) / sum(1.0 / float(p["per_second"]) for p in alone)
