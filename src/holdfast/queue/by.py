"""Who asks for a change, why, and which version of the task they saw.

Promises: the same three fields for every use case that changes something, checked in one place.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.check import check_name, check_text, check_whole
from holdfast.errors import InvalidInput

VERSION_MAX: Final = 2**63 - 1


class By(msgspec.Struct, frozen=True):
    """Recorded with the change. `reason` is kept where the event has a place for one."""

    actor: str = "api"
    reason: str = ""
    expected_version: int | None = None
    """Of a task: Conflict when it is at another version by now. None takes any."""

    def __post_init__(self) -> None:
        check_name("actor", self.actor)
        check_text("reason", self.reason)
        if self.expected_version is not None:
            check_whole("expected_version", self.expected_version, least=0, most=VERSION_MAX)

    def of_unversioned(self, noun: str) -> By:
        """InvalidInput when a version is expected of something that has none."""
        if self.expected_version is not None:
            raise InvalidInput(f"{noun} has no version: leave expected_version out")
        return self
