"""The statements of this package."""

from __future__ import annotations


def own(statement: str) -> str:
    """The name of a statement of this package."""
    return f"holdfast.fleet.jobs:{statement}"
