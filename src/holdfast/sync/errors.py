"""Errors of nodes, claims by id and pushes. Those that clients raise too are defined in the core."""

from __future__ import annotations

from holdfast.core.errors import (
    AlreadyLocked,
    NodeFenced,
    NotRunner,
    TaskNotClaimable as NotClaimable,
    UnknownNode,
)
from holdfast.errors import Conflict

__all__ = [
    "AlreadyLocked",
    "NodeFenced",
    "NotClaimable",
    "NotRunner",
    "Replaced",
    "UnknownNode",
]


class Replaced(Conflict):
    """A newer connection of the same worker speaks now."""

    code = "replaced"
