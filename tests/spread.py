"""The order of the tests: long ones begin early, and those that keep a core busy run between those that wait.

Promises: tests of one file that are not spread stay together, so its fixtures are made once, unless the part
of a process ends in the file. The order is the same in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TypeVar

T = TypeVar("T")

EARLY = 0.75
"""The share of a part in which its heavy items begin. Short items follow, because a process that has none
left takes the last items of another one's part: so no process ends long after the others."""


def spread(
    items: Iterable[T],
    file_of: Callable[[T], str],
    *,
    heavy: Callable[[str], bool],
    long: Callable[[str], bool],
    processes: int = 1,
) -> list[T]:
    """Makes a part of equal size for each process. Each begins with whole files that are long; items of heavy
    files follow at even distances between the items of the other files."""
    files = [(name, list(group)) for name, group in groupby(items, key=file_of)]
    longs = [group for name, group in files if long(name)]
    heavies = [item for name, group in files if heavy(name) and not long(name) for item in group]
    others = [item for name, group in files if not heavy(name) and not long(name) for item in group]
    total = len(heavies) + len(others) + sum(map(len, longs))
    ordered: list[T] = []
    for number in range(processes):
        first = [item for group in longs[number::processes] for item in group]
        spaced = heavies[number::processes]
        size = total * (number + 1) // processes - len(ordered)
        count = len(others) if number == processes - 1 else max(0, size - len(first) - len(spaced))
        ordered += [*first, *mixed(spaced, others[:count])]
        del others[:count]
    return ordered


def mixed(spaced: list[T], others: list[T]) -> list[T]:
    """Places the spaced items at even distances in the early share of the others."""
    ordered: list[T] = []
    end = len(others) * EARLY
    placed = 0
    for passed, item in enumerate(others):
        while placed < len(spaced) and placed * end <= passed * len(spaced):
            ordered.append(spaced[placed])
            placed += 1
        ordered.append(item)
    return ordered + spaced[placed:]
