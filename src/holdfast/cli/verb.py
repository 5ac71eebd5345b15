"""One row of the table of verbs."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

HERE: Final = "holdfast.cli.commands"
FLEET: Final = f"{HERE}.fleet"


class Kind(Enum):
    """What a command does, and so which options it shares with others of its kind; tests/unit/cli walks the
    whole tree."""

    LIST = "prints rows: -o, -q"
    SHOW = "prints one thing, or follows it: -o"
    WRITE = "changes something: -o, --dry-run, --reason"
    RUN = "is a program that runs until it is done or stopped"


class Verb(NamedTuple):
    """One command."""

    path: str
    summary: str
    place: str
    """module:function"""
    examples: tuple[str, ...]
    kind: Kind
    local: str = ""
    """Why the command does not go through a gateway; empty if it does."""
