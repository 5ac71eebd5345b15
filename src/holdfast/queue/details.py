"""What a task has beside its row: dependencies, dependents, the name that nodes use, metrics."""

from __future__ import annotations

import msgspec

from holdfast.store.rows import Dependency


class TaskDetails(msgspec.Struct, frozen=True):
    """Read for a single task, never for the rows of a list."""

    parents: tuple[Dependency, ...] = ()
    dependents: tuple[str, ...] = ()
    """At most 1,000 ids."""
    client_id: str | None = None
    """The name that nodes use for it."""
    metrics: dict[str, float] = {}
    """The totals over all attempts."""
