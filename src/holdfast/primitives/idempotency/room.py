"""What a ledger does in one event loop. The store is shared between loops; what is awaited is not."""

from __future__ import annotations

import asyncio

from holdfast.store.whole import Whole


class Room:
    """From the first use in a loop until `close`, or until the loop ends."""

    __slots__ = ("closing", "ended", "is_closed", "is_open", "opening", "running", "whole")

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        self.is_open = False
        self.is_closed = False
        self.closing = asyncio.Event()
        self.running: set[str] = set()
        """Owners of turns whose effects run."""
        self.ended = asyncio.Event()
        self.whole = Whole()
