"""The pause between tries while other transactions hold the rows that a try needs.

Promises: the pause doubles from `HELD_RETRY_SECONDS` to `PAUSE_SECONDS_MAX`, until a try succeeds.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.claiming import HELD_RETRY_SECONDS

PAUSE_SECONDS_MAX: Final = 1.0


class Backoff:
    """One for each kind of work that retries."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds = HELD_RETRY_SECONDS

    def reset(self) -> None:
        """A try has succeeded: the next pause is short again."""
        self._seconds = HELD_RETRY_SECONDS

    def next_seconds(self) -> float:
        """The pause before the next try. Each call doubles the following one."""
        seconds = self._seconds
        self._seconds = min(seconds * 2.0, PAUSE_SECONDS_MAX)
        return seconds
