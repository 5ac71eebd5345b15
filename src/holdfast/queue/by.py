"""The actor, the reason and the expected version of a change, and what is written beside it.

Promises: every use case that changes something takes the same fields. They are checked here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.check import check_name, check_text, check_whole
from holdfast.errors import InvalidInput
from holdfast.store.beside import Beside

VERSION_MAX: Final = 2**63 - 1


class By(msgspec.Struct, frozen=True):
    """Recorded with the change. `reason` is stored if the event has a field for it."""

    actor: str = "api"
    reason: str = ""
    expected_version: int | None = None
    """The version that the task must have, otherwise Conflict. None accepts any version."""

    beside: Beside | None = None
    """Writes further rows in the transaction of the change, e.g. its audit. None costs nothing."""

    def __post_init__(self) -> None:
        check_name("actor", self.actor)
        check_text("reason", self.reason)
        if self.expected_version is not None:
            check_whole("expected_version", self.expected_version, least=0, most=VERSION_MAX)

    @property
    def is_dry_run(self) -> bool:
        """Whether the change is undone at its end: nothing may be written in another transaction."""
        return self.beside is not None and self.beside.is_undone

    def of_unversioned(self, noun: str) -> By:
        """Returns this. Raises InvalidInput if a version is expected of something that has none."""
        if self.expected_version is not None:
            raise InvalidInput(f"{noun} has no version: leave expected_version out")
        return self
