"""A failure made small: fewer faults, fewer nodes, less time, less work, while the same law complains.

Promises: the smallest run that was found breaks the same law, and its plan gives that run again; the same
failure shrinks to the same run everywhere; never more than so many runs. Never: a run that breaks another law
is taken for the same failure.
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
"""Clients that want less than this are not worth a try: there is hardly any work."""
HOURS_MIN: Final = 0.001
FEWER: Final = (
    ("clients", 1),
    ("holders", 0),
    ("lock_servers", 0),
    ("traders", ()),
    ("children", 1),
)
"""Whom a run may do without, and what is left of them."""

Run = Callable[[Plan], Verdict]


class Shrunk(msgspec.Struct, frozen=True):
    """The smallest run that was found."""

    plan: Plan
    verdict: Verdict
    law: str
    """The one that it breaks as the first run did."""
    runs: int
    """How many it took to find."""


class _Search:
    """The smallest so far, and what may still be spent."""

    def __init__(self, plan: Plan, verdict: Verdict, run: Run, runs: int) -> None:
        self.plan = plan
        self.verdict = verdict
        self.law = next(iter(verdict.broken))
        self._run = run
        self._left = runs
        self.runs = 0
        self._tried = {plan}

    def try_out(self, plan: Plan) -> bool:
        """Whether this one fails in the same way; then it is the smallest."""
        if plan in self._tried or self.runs >= self._left:
            return False
        self._tried.add(plan)
        self.runs += 1
        verdict = self._run(plan)
        if self.law not in verdict.broken:
            return False
        self.plan, self.verdict = plan, verdict
        return True


def shrink(plan: Plan, verdict: Verdict, run: Run, *, runs: int = RUNS_MAX) -> Shrunk:
    """Again and again over all that can be less, until nothing can or the runs are used up."""
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
    """So that it is not a long number to type."""
    return float(f"{hours:.2g}")


def _fewer_kinds(search: _Search) -> None:
    kinds = [kind for kind in FAULTS if kind in search.plan.faults]
    fewest(kinds, lambda kept: search.try_out(replace(search.plan, faults=frozenset(kept))))


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
    """Only some of the single faults of the kinds that are left."""
    fewest(
        search.verdict.faults,
        lambda kept: search.try_out(replace(search.plan, only=frozenset(kept))),
    )


def fewest(things: Sequence[T], still_fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """As few as possible of these, so that it still fails: none, then without halves, quarters and so on
    down to single ones (Zeller's ddmin)."""
    kept = list(things)
    if kept and still_fails([]):
        return []
    size = (len(kept) + 1) // 2
    while size and len(kept) > 1:
        for rest in _without_parts(kept, size):
            if rest and still_fails(rest):
                kept = rest
                break
        else:
            size = (size + 1) // 2 if size > 1 else 0
        size = min(size, len(kept) - 1)
    return kept


def _without_parts(things: list[T], size: int) -> Iterator[list[T]]:
    for begin in range(0, len(things), size):
        yield things[:begin] + things[begin + size :]
