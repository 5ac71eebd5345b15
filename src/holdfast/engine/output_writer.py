"""Output of a run: its bytes, in parts with offsets.

Promises: parts are stored in the order of the calls, also of calls that overlap. A part that was stored
before its call was interrupted is not stored twice. Never: holds more than the calls that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.core.check import check_choice
from holdfast.core.command import OutputPart, Report
from holdfast.core.output import StreamName, parts, written
from holdfast.core.steps import settled
from holdfast.store.uncancelled import UncancelledWrites


class OutputWriter:
    """The streams of one run."""

    __slots__ = ("_ends", "_lock", "_report")

    def __init__(self, report: Callable[[Report], Awaitable[None]]) -> None:
        self._report = report
        self._ends: dict[str, int] = {}
        self._lock = asyncio.Lock()

    async def write(self, stream: str, data: str | bytes) -> None:
        """Returns when the bytes are stored."""
        name = check_choice("stream", stream, StreamName).value
        left = list(parts(written(data)))
        settled(await UncancelledWrites().finish(lambda: self._append(name, left)))

    async def _append(self, stream: str, left: list[bytes]) -> None:
        """Stores the parts, and takes each out when it is. A repeat goes on with the rest, and sends the
        first of them with the offset that it had: the store knows whether it has it."""
        async with self._lock:
            while left:
                start = self._ends.get(stream, 0)
                await self._report(Report(output=OutputPart(stream, start, left[0])))
                self._ends[stream] = start + len(left.pop(0))
