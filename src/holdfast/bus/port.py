"""What a bus is: topics in, wake-ups out.

Promises: `publish` neither blocks nor raises; whoever subscribed is called in the event loop in which it did;
`mode` tells whether hints come by push or must be replaced by polling, and why.
Never: carries data; every listener must look into the store. A hint may say that it is about one thing only,
so that a listener knows how much to look for.
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
"""Is called with the hint: a topic, or `of_one`."""


def of_one(topic: str) -> str:
    """A hint about a single thing."""
    return f"{topic} one"


def is_of_one(hint: str) -> bool:
    return " one" in hint


def of_children(hint: str) -> str:
    """A hint from a transaction whose tasks wait for others, and are to be tied to them after its commit."""
    return f"{hint} children" if hint else hint


def is_of_children(hint: str) -> bool:
    return " children" in hint


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A hint that goes with a transaction."""

    topic: str
    hint: str
    """The text to send, or '': then it follows by itself."""
    began: float = 0.0
    number: int = 0


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

    def notify_in_tx(self, topic: str, *, one: bool = False, must: bool = False) -> Notification:
        """A hint to send within a transaction, be it about a single thing or not; without a text when
        there is no such way or too many rode a moment ago. `landed` is to be called after the commit,
        unless `must`: then nobody here will know of it."""
        ...

    def committed(self, ride: Notification) -> None:
        """Its transaction is committed. Listeners here hear it at once; a hint that did not ride along
        follows, unless a later one has ridden meanwhile."""
        ...
