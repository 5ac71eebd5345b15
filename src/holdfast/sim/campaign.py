"""Many seeds: what was broken, what was met, how long it took.

Promises: a campaign in which a kind of fault never happened has failed, whatever the checkers say. Seeds
are spread over processes; the answer does not depend on how.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from itertools import islice, repeat
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.sim.ablations import ablated
from holdfast.sim.checkers import judge
from holdfast.sim.recoveries import RECOVERIES, recoveries
from holdfast.sim.swarm import FAULTS, RECOVER_HOURS, Plan, changed, plan
from holdfast.sim.timeline import timeline
from holdfast.sim.user_handlers import UserHandlers
from holdfast.sim.world import World

MUST_MEET: Final = {
    "loss": "lost",
    "double": "doubled",
    "slow": "late",
    "cut": "cut",
    "clog": "clog",
    "crash": "crash",
    "freeze": "freeze",
    "drift": "drift",
    "step": "step",
    "restart": "restart",
    "power": "power-loss-in-a-write",
    "full": "disk-full",
    "sync": "sync-error",
    "half-open": "half-open",
    "suspend": "suspend",
    "put-right": "put-right",
}
"""The counter that says that a kind of fault really happened."""


BATCH: Final = 50
"""Seeds for each process, until it is asked whether that is enough."""
CAMPAIGN: Final = 20
"""Seeds from which on every kind of fault must have happened."""
LONG: Final = 1_000
"""Seeds from which on every way of recovery must have been met."""


class Verdict(msgspec.Struct, frozen=True):
    """What came of one seed."""

    seed: int
    broken: dict[str, list[str]]
    trace_hash: str
    hours: float
    steps: int
    acks: int
    changes: int
    met: dict[str, int]
    timeline: str = ""
    faults: tuple[str, ...] = ()
    """The single faults that happened, by name."""

    @property
    def is_good(self) -> bool:
        return not self.broken


class Options(msgspec.Struct, frozen=True):
    """What is not drawn by the seed."""

    hours: float | None = None
    nodes: int | None = None
    faults: tuple[str, ...] | None = None
    ablation: str | None = None
    recover_hours: float = RECOVER_HOURS
    changes: tuple[tuple[str, str], ...] = ()
    """Other figures of the plan, as texts."""

    @property
    def is_drawn(self) -> bool:
        """Whether the seeds alone say what there is, so that everything must come up."""
        return self.faults is None and self.ablation is None and not self.changes

    def plan(self, seed: int) -> Plan:
        faults = None if self.faults is None else frozenset(self.faults)
        drawn = plan(
            seed,
            hours=self.hours,
            nodes=self.nodes,
            faults=faults,
            recover_hours=self.recover_hours,
        )
        return changed(drawn, self.changes)


def run_seed(seed: int, options: Options, user_handlers: UserHandlers | None = None) -> Verdict:
    """The run of a seed, judged."""
    return run_plan(options.plan(seed), options.ablation, user_handlers)


def run_plan(
    plan: Plan, ablation: str | None = None, user_handlers: UserHandlers | None = None
) -> Verdict:
    """One run, judged."""
    logger = logging.getLogger("holdfast")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    happened: list[str] = []
    try:
        with ablated(ablation) if ablation else nullcontext():
            world = World(plan, user_handlers)
            happened = world.faults.happened
            outcome = world.run()
    except Exception as error:  # What escapes a run is a finding like any other.
        broken = {"the run ends": [repr(error)]}
        return Verdict(plan.seed, broken, "", 0.0, 0, 0, 0, {}, faults=tuple(happened))
    finally:
        logger.setLevel(before)
    broken = judge(outcome)
    return Verdict(
        seed=plan.seed,
        broken=broken,
        trace_hash=outcome.trace.hash(),
        hours=outcome.seconds / 3600,
        steps=outcome.steps,
        acks=len(outcome.record.acks),
        changes=len(outcome.history),
        met=dict(recoveries(outcome)),
        timeline=timeline(outcome, broken) if broken else "",
        faults=tuple(happened),
    )


class Report(msgspec.Struct, frozen=True):
    """What a campaign says."""

    seeds: int
    hours: float
    bad: list[Verdict]
    met: dict[str, int]
    trace_hash: str
    """Over all runs."""
    never: Sequence[str]
    """Kinds of faults that were planned and never happened, and ways of recovery that were never met."""

    @property
    def is_good(self) -> bool:
        return not self.bad and not self.never


def campaign(
    seeds: Iterable[int],
    options: Options,
    *,
    processes: int = 1,
    user_handlers: UserHandlers | None = None,
    on_verdict: Callable[[Verdict], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> Report:
    """Runs all seeds, or as many as it comes to until `is_over`, which is asked now and then."""
    verdicts: list[Verdict] = []

    def take(verdict: Verdict) -> None:
        verdicts.append(verdict)
        on_verdict(verdict)

    left = iter(seeds)
    if processes == 1:
        for seed in left:
            take(run_seed(seed, options, user_handlers))
            if is_over():
                break
    else:
        with ProcessPoolExecutor(processes) as pool:
            while batch := list(islice(left, processes * BATCH)):
                for verdict in pool.map(run_seed, batch, repeat(options), chunksize=4):
                    take(verdict)
                if is_over():
                    break
    return _report(verdicts, options)


def _report(verdicts: list[Verdict], options: Options) -> Report:
    met: Counter[str] = Counter()
    for verdict in verdicts:
        met.update(verdict.met)
    planned = set().union(*(options.plan(verdict.seed).faults for verdict in verdicts))
    never: list[str] = [kind for kind in FAULTS if kind in planned and not met[MUST_MEET[kind]]]
    if len(verdicts) < CAMPAIGN:
        never = []  # A few runs may miss a kind by chance.
    if len(verdicts) >= LONG and options.is_drawn:
        never += [name for name in RECOVERIES if not met[name]]
    return Report(
        seeds=len(verdicts),
        hours=sum(verdict.hours for verdict in verdicts),
        bad=[verdict for verdict in verdicts if not verdict.is_good],
        met=dict(met),
        trace_hash=codec.digest(*(verdict.trace_hash for verdict in verdicts)),
        never=never,
    )


def seeds_to_catch(ablation: str, options: Options, limit: int = 50) -> tuple[int, str] | None:
    """How many seeds it takes to notice that a safeguard is missing, and which law it broke."""
    for seed in range(limit):
        verdict = run_seed(seed, msgspec.structs.replace(options, ablation=ablation))
        if not verdict.is_good:
            return seed + 1, next(iter(verdict.broken))
    return None
