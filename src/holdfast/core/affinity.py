"""The preference for the node that ran a task before.

A task that is resumed, or whose decision was made, is reserved for the node that ran it: that node may have
its files and caches. Promises: the reservation is soft: it ends by itself, and a node that is not live gets
none; an assignment by an operator stays. Never: I/O, clocks.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.gate import is_assigned
from holdfast.core.task import Status, Task

AFFINITY_SECONDS: Final = 30.0
"""How long a task prefers the node that ran it, unless the settings say it."""


class Affinity(msgspec.Struct, frozen=True, gc=False):
    """For how long tasks prefer their nodes, and which of these nodes are live."""

    seconds: float
    nodes: frozenset[str]


def reservation(task: Task, affinity: Affinity | None, now: float) -> dict[str, Any]:
    """The columns that reserve a paused task for the node that ran it. Empty: any node may claim it, or an
    operator has assigned it."""
    if affinity is None or task.status is not Status.PAUSED or is_assigned(task, now):
        return {}
    if task.node is None or task.node not in affinity.nodes:
        return {}
    return {"assigned_to": task.node, "assigned_until": now + affinity.seconds}
