"""The port of a bus: it takes topics and wakes listeners.

Promises: `publish` neither blocks nor raises; a listener is called in the event loop in which it
subscribed; `mode` says whether hints are pushed or must be replaced by polling, and why.
Never: carries data; every listener reads the store. A hint may say that it is about a single task, so
that the listener claims only one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

WORK: Final = "work"
"""A task may be ready."""
FEED: Final = "feed"
"""There are new events."""


def of_node(node: str) -> str:
    """The topic of a node: tasks may be reserved for it."""
    return f"node:{node}"


Listener = Callable[[str], None]
"""Called with the hint: a topic, or `of_one`."""


def of_one(topic: str) -> str:
    """A hint about a single task."""
    return f"{topic} one"


def is_of_one(hint: str) -> bool:
    return " one" in hint


def of_children(hint: str) -> str:
    """A hint about a transaction with children that must be linked to their parents after its commit."""
    return f"{hint} children" if hint else hint


def is_of_children(hint: str) -> bool:
    return " children" in hint


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A hint that is sent by a transaction."""

    topic: str
    hint: str
    """The text to send within the transaction. '' when the bus sends the hint after the commit."""
    began: float = 0.0
    number: int = 0


class Mode(msgspec.Struct, frozen=True):
    """How hints from other processes arrive."""

    pushing: bool
    why: str


class Bus(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def publish(self, topic: str) -> None:
        """Wakes the listeners of this process at once, and those of other processes soon."""
        ...

    def subscribe(self, listener: Listener, *topics: str) -> Callable[[], None]:
        """Calls the listener on every hint about these topics, or about any topic when none is given.
        Returns a function that ends the subscription."""
        ...

    def mode(self) -> Mode: ...

    def notify_in_tx(self, topic: str, *, one: bool = False, must: bool = False) -> Notification:
        """A hint to send within a transaction. `one`: it is about a single task. It has no text when the
        bus cannot send within a transaction, or has sent too many a moment ago. Call `committed` after
        the commit. With `must` it always has a text where possible: the caller owns the transaction, and
        its commit is not visible here."""
        ...

    def committed(self, notification: Notification) -> None:
        """Call this after the commit. Listeners of this process are called at once. A hint that was not sent
        within the transaction follows, unless a later NOTIFY covers it."""
        ...
