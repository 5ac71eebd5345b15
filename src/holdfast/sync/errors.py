"""Errors of nodes, claims by id and pushes."""

from __future__ import annotations

from typing import Any

from holdfast.errors import Conflict, LeaseLost, NotFound

__all__ = [
    "AlreadyLocked",
    "NodeFenced",
    "NotClaimable",
    "NotRunner",
    "Replaced",
    "UnknownNode",
]


class UnknownNode(NotFound):
    """No node has registered under this id."""

    code = "unknown-node"


class NodeFenced(LeaseLost):
    """The node has a newer incarnation, or its state shuts it out."""

    code = "node-fenced"


class Replaced(Conflict):
    """A newer connection of the same worker speaks now."""

    code = "replaced"


class NotRunner(Conflict):
    """The sender does not hold the task."""

    code = "not-runner"
    grpc_status = "FAILED_PRECONDITION"


class AlreadyLocked(Conflict):
    """Another node holds the task. `details` say which one and for how long."""

    code = "already-locked"

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details or {}


class NotClaimable(Conflict):
    """The task cannot be claimed now. `reason` says why."""

    code = "not-claimable"
    grpc_status = "FAILED_PRECONDITION"

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason
