"""One row of the table of verbs."""

from __future__ import annotations

from typing import Final, NamedTuple

HERE: Final = "holdfast.cli.commands"
FLEET: Final = f"{HERE}.fleet"


class Verb(NamedTuple):
    """One command."""

    path: str
    summary: str
    place: str
    """module:function"""
    examples: tuple[str, ...]
    local: str = ""
    """Why the command does not go through a gateway; empty if it does."""
