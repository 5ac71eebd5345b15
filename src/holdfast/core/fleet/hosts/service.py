"""Whether a host would take up an execution now. `store.conditions` has the rule over rows."""

from __future__ import annotations

from enum import StrEnum


class HostService(StrEnum):
    """Whether a host would take up an execution now."""

    READY = "ready"
    CLOSED = "closed"
    """It takes nothing new: it is cordoned, or its agent said so with its newest sync."""
    SILENT = "silent"
    """It does not answer, or was removed."""
