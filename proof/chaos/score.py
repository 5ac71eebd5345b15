"""Figures of one case from its journal: pure functions.

A job counts once for throughput, with the first end of its handler. Lost: acknowledged to the producer,
never ended, and no longer in the store (a job that waits there is unfinished). Ran twice: started more
than once, which every at-least-once queue may do. Ended twice: the system accepted two ends, so the
effect is doubled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proof.chaos.journal import ACKNOWLEDGED, END, START, Line

BACK = 0.9
STEP_SECONDS = 0.1


@dataclass(frozen=True)
class Phases:
    """Times of a run in seconds of the monotonic clock."""

    base_from: float
    struck: float
    healed: float
    hushed: float
    """When the load ended."""


@dataclass(frozen=True)
class Tally:
    """Counts of jobs by outcome."""

    acknowledged: int
    never_ended: int
    ran_twice: int
    handler_ended_twice: int
    enqueued_twice: int


def tally(lines: Iterable[Line]) -> Tally:
    """Counts jobs by outcome."""
    acknowledged: set[int] = set()
    starts: Counter[int] = Counter()
    ends: Counter[int] = Counter()
    tasks: dict[int, set[str]] = {}
    for line in lines:
        if line.word == ACKNOWLEDGED:
            acknowledged.add(line.job)
        elif line.word == START:
            starts[line.job] += 1
            tasks.setdefault(line.job, set()).add(line.task)
        elif line.word == END:
            ends[line.job] += 1
    return Tally(
        acknowledged=len(acknowledged),
        never_ended=len(acknowledged - ends.keys()),
        ran_twice=sum(n > 1 for n in starts.values()),
        handler_ended_twice=sum(n > 1 for n in ends.values()),
        enqueued_twice=sum(len(ids) > 1 for ids in tasks.values()),
    )


def first_ends(lines: Iterable[Line]) -> list[float]:
    """When each job ended for the first time, in order, in seconds."""
    first: dict[int, int] = {}
    for line in lines:
        if line.word == END:
            first[line.job] = min(line.at, first.get(line.job, line.at))
    return sorted(at / 1e9 for at in first.values())


def rate(ends: Sequence[float], since: float, until: float) -> float:
    """Ends per second in a window."""
    if until <= since:
        return 0.0
    return (bisect_left(ends, until) - bisect_left(ends, since)) / (until - since)


def back_after(ends: Sequence[float], phases: Phases, base: float) -> float | None:
    """Seconds from the end of the fault until a second with 90 % of the base rate begins; None: never."""
    steps = int((phases.hushed - phases.healed - 1.0) / STEP_SECONDS) + 1
    for step in range(max(0, steps)):
        since = phases.healed + step * STEP_SECONDS
        if rate(ends, since, since + 1.0) >= BACK * base:
            return round(step * STEP_SECONDS, 1)
    return None
