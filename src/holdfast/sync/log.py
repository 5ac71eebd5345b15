"""The log of the exchange: what nodes did, and how it was answered.

Promises: an entry commits with what it describes. Ends of leases and acts of operators are logged where they
are decided (`store.scripts.sync_log`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.store.script import Script, call_rows
from holdfast.sync.rows import own


class LogRow(msgspec.Struct, frozen=True):
    """A row of the log, without its clock."""

    op: str
    outcome: str
    task_id: str | None = None
    """The name that the node uses."""
    mutation_id: str | None = None
    code: str | None = None
    resolution: str | None = None
    from_version: int | None = None
    to_version: int | None = None

    def values(self, clock: int) -> tuple[Any, ...]:
        """In the order of `add_log`."""
        return (
            *(self.op, self.task_id, self.mutation_id, self.outcome, self.code),
            *(self.resolution, self.from_version, self.to_version, clock),
        )


def write_log(
    rows: Sequence[LogRow], *, project: str, node: str, clock: int, now: float
) -> Script[None]:
    """Adds rows of one node, under the clock of their project."""
    if rows:
        values = [row.values(clock) for row in rows]
        yield call_rows(own("add_log"), values, project=project, node=node, now=now)
