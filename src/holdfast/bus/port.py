"""What a bus is: topics in, wake-ups out.

Promises: `publish` neither blocks nor raises; whoever subscribed is called in the event loop's thread;
`mode` tells whether hints come by push or must be replaced by polling, and why.
Never: carries data; every listener must look into the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

WORK: Final = "work"
"""There may be something to claim."""
FEED: Final = "feed"
"""There are new events."""

Listener = Callable[[str], None]


class Mode(msgspec.Struct, frozen=True):
    """How wake-ups from other processes arrive."""

    pushing: bool
    why: str


class Bus(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def publish(self, topic: str) -> None:
        """Wakes listeners here at once, and those of other processes soon."""
        ...

    def subscribe(self, listener: Listener, *topics: str) -> Callable[[], None]:
        """Calls back on every hint about these topics, or about any; the answer ends it."""
        ...

    def mode(self) -> Mode: ...

    def ride_along(self, topic: str, *, must: bool = False) -> str:
        """A hint to send within a transaction. '' when there is no such way or one rode a moment ago:
        then `publish` after the commit. `must`: nobody here will know of the commit."""
        ...
