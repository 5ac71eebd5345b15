"""Minimizes a failing run: fewer faults, fewer nodes, less time, less work, while the same law stays
broken.

Promises: the smallest run found breaks the same law, and its plan reproduces it; the same failure shrinks
to the same run everywhere; the number of runs is bounded. Never: accepts a run that breaks another law
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.sim.campaign import Verdict
from holdfast.sim.swarm import FAULTS, Plan

T = TypeVar("T")
RUNS_MAX: Final = 80
ACT_SECONDS_MAX: Final = 60.0
"""Longest time between two requests of a client that is tried: beyond it there is hardly any work."""
HOURS_MIN: Final = 0.001
FEWER: Final = (
    ("clients", 1),
    ("holders", 0),
    ("lock_servers", 0),
    ("traders", ()),
    ("children", 1),
)
"""Figures that can be reduced, with their least value."""

Run = Callable[[Plan], Verdict]


class Shrunk(msgspec.Struct, frozen=True):
    """The smallest run that was found."""

    plan: Plan
    verdict: Verdict
    law: str
    """The law that it breaks, as the first run did."""
    runs: int
    """Runs that the search took."""


class _Search:
    """The smallest run so far, and the budget of runs."""

    def __init__(self, plan: Plan, verdict: Verdict, run: Run, runs: int) -> None:
        self.plan = plan
        self.verdict = verdict
        self.law = next(iter(verdict.broken))
        self._run = run
        self._runs_max = runs
        self.runs = 0
        self._tried = {plan}

    def try_out(self, plan: Plan) -> bool:
        """Runs a plan. If it breaks the same law, it becomes the smallest one."""
        if plan in self._tried or self.runs >= self._runs_max:
            return False
        self._tried.add(plan)
        self.runs += 1
        verdict = self._run(plan)
        if self.law not in verdict.broken:
            return False
        self.plan, self.verdict = plan, verdict
        return True


def shrink(plan: Plan, verdict: Verdict, run: Run, *, runs: int = RUNS_MAX) -> Shrunk:
    """Reduces every dimension in turn until nothing can be reduced or the runs are used up."""
    search = _Search(plan, verdict, run, runs)
    before: Plan | None = None
    while before != search.plan:
        before = search.plan
        _less_time(search)
        _fewer_kinds(search)
        _fewer_nodes(search)
        _less_work(search)
        _fewer_faults(search)
    return Shrunk(search.plan, search.verdict, search.law, search.runs)


def _less_time(search: _Search) -> None:
    for share in (0.25, 0.5, 0.75):
        while (hours := _short(search.plan.hours * share)) >= HOURS_MIN:
            if not search.try_out(replace(search.plan, hours=hours)):
                break


def _short(hours: float) -> float:
    """Two significant digits, so that the number is short to type."""
    return float(f"{hours:.2g}")


def _fewer_kinds(search: _Search) -> None:
    kinds = [kind for kind in FAULTS if kind in search.plan.faults]
    fewest(kinds, lambda subset: search.try_out(replace(search.plan, faults=frozenset(subset))))


def _fewer_nodes(search: _Search) -> None:
    for nodes in range(1, search.plan.nodes):
        if search.try_out(replace(search.plan, nodes=nodes)):
            break
    for name, least in FEWER:
        if getattr(search.plan, name) != least:
            search.try_out(msgspec.structs.replace(search.plan, **{name: least}))


def _less_work(search: _Search) -> None:
    while (seconds := search.plan.act_seconds * 2) <= ACT_SECONDS_MAX:
        if not search.try_out(replace(search.plan, act_seconds=_short(seconds))):
            return


def _fewer_faults(search: _Search) -> None:
    """Keeps only some of the single faults of the remaining kinds."""
    fewest(
        search.verdict.faults,
        lambda subset: search.try_out(replace(search.plan, only=frozenset(subset))),
    )


def fewest(items: Sequence[T], still_fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A minimal subset that still fails: tries the empty one, then removes halves, quarters and so on down
    to single items (Zeller's ddmin)."""
    subset = list(items)
    if subset and still_fails([]):
        return []
    size = (len(subset) + 1) // 2
    while size and len(subset) > 1:
        for rest in _without_chunks(subset, size):
            if rest and still_fails(rest):
                subset = rest
                break
        else:
            size = (size + 1) // 2 if size > 1 else 0
        size = min(size, len(subset) - 1)
    return subset


def _without_chunks(items: list[T], size: int) -> Iterator[list[T]]:
    for begin in range(0, len(items), size):
        yield items[:begin] + items[begin + size :]
