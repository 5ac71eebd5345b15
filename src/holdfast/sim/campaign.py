"""Runs many seeds and reports broken laws and which faults and recoveries occurred.

Promises: a campaign in which a planned kind of fault never occurred has failed, even if every law held.
Seeds are distributed over processes; the result does not depend on the distribution.
"""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import islice, repeat
from typing import Final, TypeAlias

import msgspec

from holdfast.core import codec
from holdfast.sim.checkers import judge
from holdfast.sim.outcome import Outcome
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
"""The counter that shows that a kind of fault occurred."""


RUN_ENDS: Final = "the run ends"
"""Broken when an error ends a run. The other laws are not judged then."""
BATCH: Final = 50
"""Seeds for each process between two checks of `is_over`."""
CAMPAIGN: Final = 20
"""Number of seeds from which on every planned kind of fault must have occurred."""
LONG: Final = 1_000
"""Number of seeds from which on every kind of recovery must have occurred."""


Around: TypeAlias = Callable[[], AbstractContextManager[object]]
"""Makes a context manager in which a run takes place; the laws are checked outside of it. For a campaign in
several processes it must be picklable."""


class Verdict(msgspec.Struct, frozen=True):
    """The result of one run."""

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
    """Names of the single faults that occurred."""

    @property
    def is_good(self) -> bool:
        return not self.broken


class Options(msgspec.Struct, frozen=True):
    """Figures of the plan that are given and not drawn."""

    hours: float | None = None
    nodes: int | None = None
    faults: tuple[str, ...] | None = None
    recover_hours: float = RECOVER_HOURS
    changes: tuple[tuple[str, str], ...] = ()
    """Other figures of the plan, as (name, text)."""

    @property
    def is_drawn(self) -> bool:
        """Whether the seeds decide everything, so that every kind of recovery must occur."""
        return self.faults is None and not self.changes

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


def run_seed(
    seed: int,
    options: Options,
    user_handlers: UserHandlers | None = None,
    around: Around = nullcontext,
) -> Verdict:
    """Runs a seed and checks the laws."""
    return run_plan(options.plan(seed), user_handlers, around)


def run_plan(
    plan: Plan, user_handlers: UserHandlers | None = None, around: Around = nullcontext
) -> Verdict:
    """Runs a plan and checks the laws."""
    _leave_out_of_collections()
    logger = logging.getLogger("holdfast")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with around():  # An error of the context itself is not a finding: it is raised.
            outcome, happened = _run(plan, user_handlers)
    finally:
        logger.setLevel(before)
    if isinstance(outcome, Exception):
        broken = {RUN_ENDS: [repr(outcome)]}
        return Verdict(plan.seed, broken, "", 0.0, 0, 0, 0, {}, faults=tuple(happened))
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


@cache
def _leave_out_of_collections() -> None:
    """Once in a process: every run ends with a garbage collection, and modules are most of what it would
    look at."""
    gc.collect()
    gc.freeze()


def _run(
    plan: Plan, user_handlers: UserHandlers | None
) -> tuple[Outcome | Exception, Sequence[str]]:
    """The outcome, or the error that escaped, which is a finding too; and the faults that occurred."""
    happened: Sequence[str] = ()
    try:
        world = World(plan, user_handlers)
        happened = world.faults.happened
        return world.run(), happened
    except Exception as error:
        return error, happened


class Report(msgspec.Struct, frozen=True):
    """The result of a campaign."""

    seeds: int
    hours: float
    bad: list[Verdict]
    met: dict[str, int]
    trace_hash: str
    """Hash over the traces of all runs."""
    never: Sequence[str]
    """Planned kinds of faults and kinds of recovery that never occurred."""

    @property
    def is_good(self) -> bool:
        return not self.bad and not self.never


def campaign(
    seeds: Iterable[int],
    options: Options,
    *,
    processes: int = 1,
    user_handlers: UserHandlers | None = None,
    around: Around = nullcontext,
    on_verdict: Callable[[Verdict], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> Report:
    """Runs the seeds until they are used up or `is_over`, which is checked from time to time."""
    verdicts: list[Verdict] = []

    def add(verdict: Verdict) -> None:
        verdicts.append(verdict)
        on_verdict(verdict)

    remaining = iter(seeds)
    if processes == 1:
        for seed in remaining:
            add(run_seed(seed, options, user_handlers, around))
            if is_over():
                break
    else:
        with ProcessPoolExecutor(processes) as pool:
            while batch := list(islice(remaining, processes * BATCH)):
                given = repeat(options), repeat(None), repeat(around)
                for verdict in pool.map(run_seed, batch, *given, chunksize=4):
                    add(verdict)
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
        never = []  # A few runs can miss a kind by chance.
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
