"""Output of a run: its bytes, in parts with offsets.

Promises: parts are stored in the order of the calls, also of calls that overlap. A part that was stored
before its call was interrupted is not stored twice. Never: holds more than the calls that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from holdfast.core.check import check_choice, shown
from holdfast.core.command import OutputPart, Report
from holdfast.core.output import StreamName
from holdfast.core.steps import settled
from holdfast.errors import InvalidInput, PayloadTooLarge
from holdfast.store.uncancelled import UncancelledWrites

PART_BYTES: Final = 32_768
"""What one transaction, and one frame of the live feed, takes."""
CALL_BYTES_MAX: Final = 1_048_576
"""What one call takes."""


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
        parts = list(_parts(_checked(data)))
        settled(await UncancelledWrites().finish(lambda: self._append(name, parts)))

    async def _append(self, stream: str, parts: list[bytes]) -> None:
        """Stores the parts, and takes each out when it is. A repeat goes on with the rest, and sends the
        first of them with the offset that it had: the store knows whether it has it."""
        async with self._lock:
            while parts:
                start = self._ends.get(stream, 0)
                await self._report(Report(output=OutputPart(stream, start, parts[0])))
                self._ends[stream] = start + len(parts.pop(0))


def _checked(data: str | bytes) -> bytes:
    if isinstance(data, str):
        try:
            data = data.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"output is not text in UTF-8: {error}") from None
    if not isinstance(data, bytes):
        raise InvalidInput(f"output {shown(data)} is neither text nor bytes")
    if len(data) > CALL_BYTES_MAX:
        raise PayloadTooLarge(
            f"output has {len(data)} bytes: at most {CALL_BYTES_MAX} in one call; write it in parts"
        )
    return data


def _parts(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), PART_BYTES):
        yield data[start : start + PART_BYTES]
