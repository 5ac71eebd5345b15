"""Runs the simulator without a safeguard until a law is broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from holdfast.sim.campaign import Options, Verdict, run_plan, run_seed
from holdfast.sim.shrink import Shrunk, shrink
from proof.ablations import ABLATIONS, ablated

SEEDS_MAX: Final = 20
BUSY: Final = Options(
    hours=0.03,
    recover_hours=0.3,
    changes=(("act_seconds", "1.5"), ("clients", "3"), ("gateways", "0")),
)
"""A high load, under which a missing safeguard shows soon."""


class Catch(NamedTuple):
    """The first run that broke a law."""

    verdict: Verdict
    seeds: int

    @property
    def law(self) -> str:
        return next(iter(self.verdict.broken))


def options_of(name: str) -> Options:
    return replace(BUSY, changes=BUSY.changes + ABLATIONS[name].focus)


def caught(name: str, seeds_max: int = SEEDS_MAX, *, before: Iterable[int] = ()) -> Catch | None:
    """None if no law is broken with these seeds, from seed 0 on. `before`: seeds to try before the others."""
    return next(catches(name, dict.fromkeys((*before, *range(seeds_max)))), None)


def catches(name: str, seeds: Iterable[int]) -> Iterator[Catch]:
    """The runs with these seeds that broke a law."""
    options = options_of(name)
    for tries, seed in enumerate(seeds, start=1):
        verdict = run_seed(seed, options, around=partial(ablated, name))
        if not verdict.is_good:
            yield Catch(verdict, tries)


def smallest(name: str, catch: Catch) -> Shrunk:
    """The smallest run without the safeguard that breaks the same law."""
    around = partial(ablated, name)
    plan = options_of(name).plan(catch.verdict.seed)
    return shrink(plan, catch.verdict, lambda smaller: run_plan(smaller, around=around))
