"""Output of a run: its bytes, in parts with offsets.

Promises: parts are stored in the order of the calls, also of calls that overlap. A part that was stored
before its call was interrupted is not stored twice. Whether a part was stored whose call failed is settled
by the next call: the same bytes again go on where they were; others come after that part.
Never: holds more than the calls that wait, and the last one of each stream that failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.core.check import check_choice
from holdfast.core.command import OutputPart, Report
from holdfast.core.output import StreamName, parts, written
from holdfast.core.steps import settled
from holdfast.store.uncancelled import UncancelledWrites


class _Text:
    """The bytes of one call, and the parts that may not be stored yet. None: it has not begun."""

    __slots__ = ("data", "left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left: list[bytes] | None = None


class OutputWriter:
    """The streams of one run."""

    __slots__ = ("_ends", "_failed", "_lock", "_report")

    def __init__(self, report: Callable[[Report], Awaitable[None]]) -> None:
        self._report = report
        self._ends: dict[str, int] = {}
        self._failed: dict[str, _Text] = {}
        self._lock = asyncio.Lock()

    async def write(self, stream: str, data: str | bytes) -> None:
        """Returns when the bytes are stored."""
        name = check_choice("stream", stream, StreamName).value
        text = _Text(written(data))
        settled(await UncancelledWrites().finish(lambda: self._append(name, text)))

    async def _append(self, stream: str, text: _Text) -> None:
        """Stores the parts, and takes each out when it is. A repeat goes on with the rest, and sends the
        first of them with the offset that it had: the store knows whether it has it."""
        async with self._lock:
            left = text.left = self._begun(stream, text)
            self._failed[stream] = text
            while left:
                start = self._ends.get(stream, 0)
                await self._report(Report(output=OutputPart(stream, start, left[0])))
                self._ends[stream] = start + len(left.pop(0))
            del self._failed[stream]

    def _begun(self, stream: str, text: _Text) -> list[bytes]:
        if text.left is not None:
            return text.left
        failed = self._failed.get(stream)
        if failed is None or not failed.left:
            return list(parts(text.data))
        if failed.data == text.data:
            return failed.left
        return [failed.left[0], *parts(text.data)]
