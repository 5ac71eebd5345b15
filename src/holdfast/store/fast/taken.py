"""Tasks from the rows of `claim_plain` on PostgreSQL.

Promises: a task equals its row in the store. The values that a claim sets are those of its request. Other
columns that are not returned are empty; if one is not, the row has all of them as `whole`. Never: decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec

from holdfast.core.claiming import ClaimRequest
from holdfast.core.task import RUNNING, Priority, Task
from holdfast.store.columns import CLAIMED
from holdfast.store.fast.lanes import Firsts

_NTH: Final = 3
"""The first column of a row that is about its task: the others are the same in all rows."""
_ROW: Final = ("nth", *CLAIMED, "whole")
_IN_LINE: Final = itemgetter(_ROW.index("priority"), _ROW.index("due_at"), _ROW.index("nth"))
_PRIORITIES: Final = tuple(Priority)
_WHOLE: Final = msgspec.json.Decoder(Task)


def in_line(records: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows about tasks, in the order in which the tasks start. If none was taken, one row says so."""
    if records[0][_NTH] is None:
        return []
    rows = [record[_NTH:] for record in records]
    rows.sort(key=_IN_LINE)
    return rows


def tasks_of(
    rows: Iterable[tuple[Any, ...]], claim: ClaimRequest, now: float
) -> tuple[list[Task], Firsts]:
    """The tasks of rows in line, and the place of the first one of each lane. Columns are read in the order
    of `CLAIMED`, and fields are given in that of `Task`: by name, or through a table, it takes longer."""
    tasks, firsts = list[Task](), Firsts()
    node, claim_id, own_lease = claim.node, claim.claim_id, claim.own_lease_seconds
    until = now + claim.lease_seconds
    last_queue, last_priority, priority = "", -1, Priority.CRITICAL
    # fmt: off
    for (
        nth, task_id, kind, project, queue, number, due_at, attempts, fence, version, payload, metadata,
        options, attempts_max, created_at, dependents, key, digest, tags, keep, silence, silent_at, whole,
    ) in rows:
        if number != last_priority or queue != last_queue:
            last_queue, last_priority, priority = queue, number, _PRIORITIES[number]
            firsts.setdefault((queue, number), (due_at, nth))
        tasks.append(
            Task(
                task_id, kind, queue, priority, RUNNING, payload, metadata, options, attempts, attempts_max,
                0, version, fence, created_at, now, due_at, now, None, node, until, None, None, None, None,
                None, None, None, 0, dependents, key, digest, None, project, claim_id, own_lease, silence,
                silent_at, None, None, None, tags, keep,
            ) if whole is None else _WHOLE.decode(whole)
        )
    # fmt: on
    return tasks, firsts
