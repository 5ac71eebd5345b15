"""Where writes to the disk of the host are made: on the spot, or in a thread.

The way to a thread and back takes longer than a sync of a quick disk, and much CPU time if many agents share
the process. A slow disk must not hold up their event loop.

Promises: most of the newest syncs decide, so one that was slow by chance changes nothing. Of the syncs of a
slow disk, each `TRIES`th one is made on the spot, to see whether the disk is quick by now; no other write is.
"""

from __future__ import annotations

from collections import deque
from typing import Final

QUICK_SECONDS: Final = 0.0002
"""About what the way to a thread and back takes."""
SYNCS_KEPT: Final = 9
TRIES: Final = 32


class SyncPace:
    """How quick the newest syncs of one disk were."""

    def __init__(self) -> None:
        self._newest: deque[bool] = deque(maxlen=SYNCS_KEPT)
        self._untried = 0
        self.is_quick = True

    def took(self, seconds: float) -> None:
        """A write with a sync was made on the spot."""
        self._newest.append(seconds < QUICK_SECONDS)
        slow = self._newest.count(False)
        self.is_quick = slow <= SYNCS_KEPT // 2

    def is_on_the_spot(self, *, has_sync: bool) -> bool:
        """Whether the write that comes now is made on the spot."""
        if self.is_quick or not has_sync:
            return self.is_quick
        self._untried = (self._untried + 1) % TRIES
        return self._untried == 0
