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
SHORT_RECOVER_HOURS: Final = 0.1


class SeedRun(NamedTuple):
    """A run of the simulator with this seed. `short_hours`: shorter than `BUSY`, also in its recovery."""

    seed: int
    short_hours: float | None = None


class Catch(NamedTuple):
    """The first run that broke a law."""

    run: SeedRun
    verdict: Verdict
    seeds: int

    @property
    def law(self) -> str:
        return next(iter(self.verdict.broken))


def options_of(name: str, short_hours: float | None = None) -> Options:
    options = replace(BUSY, changes=BUSY.changes + ABLATIONS[name].focus)
    if short_hours is None:
        return options
    return replace(options, hours=short_hours, recover_hours=SHORT_RECOVER_HOURS)


def caught(
    name: str, seeds_max: int = SEEDS_MAX, *, before: Iterable[SeedRun] = ()
) -> Catch | None:
    """None if no law is broken with these seeds, from seed 0 on. `before`: runs to try before the others."""
    return next(catches(name, (*before, *map(SeedRun, range(seeds_max)))), None)


def catches(name: str, runs: Iterable[SeedRun]) -> Iterator[Catch]:
    """Those of the runs that broke a law."""
    for tries, run in enumerate(runs, start=1):
        options = options_of(name, run.short_hours)
        verdict = run_seed(run.seed, options, around=partial(ablated, name))
        if not verdict.is_good:
            yield Catch(run, verdict, tries)


def smallest(name: str, catch: Catch) -> Shrunk:
    """The smallest run without the safeguard that breaks the same law."""
    around = partial(ablated, name)
    plan = options_of(name, catch.run.short_hours).plan(catch.run.seed)
    return shrink(plan, catch.verdict, lambda smaller: run_plan(smaller, around=around))
