"""Figures of a project: each is added to in the transaction of what it counts."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.store.script import Script, call_rows
from holdfast.sync.rows import own


def write_tally(project: str, figures: Mapping[str, int]) -> Script[None]:
    """Adds to the figures of a project. A figure that does not change costs nothing."""
    rows = [(name, n) for name, n in sorted(figures.items()) if n]
    if rows:
        yield call_rows(own("add_tally"), rows, project=project)
