"""The preference for the node that ran a task before.

A task that is resumed, or whose decision was made, is reserved for the node that ran it: that node may have
its files and caches. Promises: the reservation is soft: it ends by itself, and as soon as the node is gone or
late with its heartbeats; such a node gets none; an assignment by an operator stays. Never: I/O, clocks.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.gate import is_assigned, of_preference
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


def preferring(task: Task, reserved: dict[str, Any]) -> Task:
    """The queued task at the gate of the node that it prefers, if it is reserved for one: a reservation that
    ends as it begins has left it."""
    if not reserved or task.assigned_to is None:
        return task
    return replace(task, gate=of_preference(task.assigned_to))
