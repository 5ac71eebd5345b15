"""Seeds that notice an ablation with little work: `seeds.toml`, for the tests to begin with.

A change of the product gives a seed another schedule, so a kept seed can lose its catch. Three are kept of
each ablation, and after those the tests try all others: they become slow and not wrong.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from holdfast.sim.campaign import RUN_ENDS, run_seed
from proof.ablations import ABLATIONS
from proof.ablations.catch import Catch, catches, options_of

FILE: Final = Path(__file__).with_name("seeds.toml")
KEPT: Final = 3
HEADER: Final = (
    "# Seeds that notice each ablation, cheapest first: `python -m proof ablations --keep`.\n\n"
)


def kept_seeds(file: Path = FILE) -> dict[str, list[int]]:
    return tomllib.loads(file.read_text("utf-8")) if file.exists() else {}


def keep(name: str, seeds_max: int, file: Path = FILE) -> Catch | None:
    """Keeps the first seeds below `seeds_max` that notice it, by the steps of the simulator: those are the
    same on every machine. Returns the catch of the lowest seed."""
    found = list(islice(clean_catches(name, seeds_max), KEPT))
    cheapest = sorted(found, key=lambda catch: catch.verdict.steps)
    kept = kept_seeds(file) | {name: [catch.verdict.seed for catch in cheapest]}
    lines = [f"{each} = {kept[each]}\n" for each in ABLATIONS if kept.get(each)]
    file.write_text(HEADER + "".join(lines), "utf-8")
    return found[0] if found else None


def clean_catches(name: str, seeds_max: int) -> Iterator[Catch]:
    """Catches by a law, with seeds with which the whole product breaks none."""
    for catch in catches(name, range(seeds_max)):
        is_judged = RUN_ENDS not in catch.verdict.broken
        if is_judged and run_seed(catch.verdict.seed, options_of(name)).is_good:
            yield catch
