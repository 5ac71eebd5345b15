"""Runs that notice an ablation with little work: `seeds.toml`, for the tests to begin with.

A change of the product gives a seed another schedule, so a kept run can lose its catch. Three are kept of
each ablation, and after those the tests try seeds at full length: they become slow and not wrong.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from holdfast.sim.campaign import RUN_ENDS, run_seed
from proof.ablations import ABLATIONS
from proof.ablations.catch import Catch, SeedRun, catches, options_of

FILE: Final = Path(__file__).with_name("seeds.toml")
KEPT: Final = 3
SHORT_HOURS: Final = (0.005, 0.01, 0.02, 0.03)
HEADER: Final = (
    "# Seeds and hours of runs that notice each ablation, cheapest first:\n"
    "# `python -m proof ablations --keep`.\n\n"
)


def kept_runs(file: Path = FILE) -> dict[str, list[SeedRun]]:
    kept = tomllib.loads(file.read_text("utf-8")) if file.exists() else {}
    return {name: [SeedRun(*run) for run in runs] for name, runs in kept.items()}


def shown(runs: list[SeedRun]) -> list[list[float]]:
    """Seed and hours of each run, or the seed alone of one at full length."""
    return [[figure for figure in run if figure is not None] for run in runs]


def keep(name: str, seeds_max: int, file: Path = FILE) -> Catch | None:
    """Keeps the first runs with seeds below `seeds_max` that notice it, from the shortest on, in the order of
    their steps in the simulator: those are the same on every machine. Returns the first catch."""
    found = list(islice(clean_catches(name, seeds_max), KEPT))
    cheapest = sorted(found, key=lambda catch: catch.verdict.steps)
    kept = kept_runs(file) | {name: [catch.run for catch in cheapest]}
    lines = [f"{each} = {shown(kept[each])}\n" for each in ABLATIONS if kept.get(each)]
    file.write_text(HEADER + "".join(lines), "utf-8")
    return found[0] if found else None


def clean_catches(name: str, seeds_max: int) -> Iterator[Catch]:
    """Catches by a law, with runs in which the whole product breaks none."""
    runs = (SeedRun(seed, hours) for hours in SHORT_HOURS for seed in range(seeds_max))
    for catch in catches(name, runs):
        is_judged = RUN_ENDS not in catch.verdict.broken
        whole = options_of(name, catch.run.short_hours)
        if is_judged and run_seed(catch.run.seed, whole).is_good:
            yield catch
