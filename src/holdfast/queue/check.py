"""What a check of `holdfast doctor` answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

NAMED_MAX: Final = 10
"""Nodes, or types, that one answer names at most."""


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(msgspec.Struct, frozen=True):
    """The result of one check."""

    name: str
    level: Level
    text: str
