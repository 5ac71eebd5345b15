"""The order of the tests: long ones that keep a core busy run between those that wait.

Promises: tests of one file that are not spread stay together, so its fixtures are made once. The order is the
same in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TypeVar

T = TypeVar("T")


def spread(items: Iterable[T], file_of: Callable[[T], str], heavy: frozenset[str]) -> list[T]:
    """Puts the items of the heavy files at even distances between the other files."""
    files = [(name, list(group)) for name, group in groupby(items, key=file_of)]
    long = [item for name, group in files if name in heavy for item in group]
    others = [group for name, group in files if name not in heavy]
    total = sum(map(len, others))
    ordered: list[T] = []
    passed = placed = 0
    for group in others:
        while placed < len(long) and placed * total <= passed * len(long):
            ordered.append(long[placed])
            placed += 1
        ordered += group
        passed += len(group)
    return ordered + long[placed:]
