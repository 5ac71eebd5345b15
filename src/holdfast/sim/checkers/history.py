"""Groups the row history by transaction."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.sim.server import Change


def transactions(history: list[Change]) -> Iterator[list[Change]]:
    """The changes of each commit as one list."""
    group: list[Change] = []
    for change in history:
        if group and group[0].transaction != change.transaction:
            yield group
            group = []
        group.append(change)
    if group:
        yield group
