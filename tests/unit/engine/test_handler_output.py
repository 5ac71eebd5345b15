"""Output of handlers: the order of calls, interrupted calls, values that are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.command import OutputPart, Report
from holdfast.core.output import CALL_BYTES_MAX, PART_BYTES
from holdfast.engine.output_writer import OutputWriter
from holdfast.errors import InvalidInput, PayloadTooLarge


class Sink:
    """Stores parts as a store does: a part that it has already is not stored again."""

    def __init__(self) -> None:
        self.parts: list[OutputPart] = []
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, report: Report) -> None:
        self.entered.set()
        await self.gate.wait()
        assert report.output is not None
        if report.output not in self.parts:
            self.parts.append(report.output)

    def text(self, stream: str = "stdout") -> bytes:
        """The bytes of a stream. Each part starts where the one before it ends."""
        data = b""
        for part in self.parts:
            if part.stream == stream:
                assert part.start == len(data)
                data += part.data
        return data


async def test_calls_that_overlap_are_stored_in_their_order() -> None:
    sink = Sink()
    writer = OutputWriter(sink)
    sink.gate.clear()
    calls = [asyncio.create_task(writer.write("stdout", f"{n} ")) for n in range(9)]
    await sink.entered.wait()
    sink.gate.set()
    await asyncio.gather(*calls)
    assert sink.text() == b"0 1 2 3 4 5 6 7 8 "


async def test_streams_have_offsets_of_their_own() -> None:
    sink = Sink()
    writer = OutputWriter(sink)
    for stream, data in (("stdout", "a"), ("log", b"\xff\0"), ("stdout", "ß"), ("log", "")):
        await writer.write(stream, data)
    assert (sink.text(), sink.text("log")) == ("aß".encode(), b"\xff\0")
    assert len(sink.parts) == 3, "nothing is written for nothing"


async def test_long_output_is_split() -> None:
    sink = Sink()
    await OutputWriter(sink).write("stdout", b"x" * CALL_BYTES_MAX)
    assert sink.text() == b"x" * CALL_BYTES_MAX
    assert {len(part.data) for part in sink.parts} == {PART_BYTES}


@pytest.mark.parametrize("cancels", [1, 2])
async def test_a_call_that_was_cancelled_leaves_no_gap(cancels: int) -> None:
    sink = Sink()
    writer = OutputWriter(sink)
    sink.gate.clear()
    call = asyncio.create_task(writer.write("stdout", b"a" * (PART_BYTES + 1)))
    await sink.entered.wait()
    for _ in range(cancels):
        call.cancel()
        await asyncio.sleep(0)
    sink.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    await writer.write("stdout", "b")
    assert sink.text() == b"a" * (PART_BYTES + 1) + b"b"


@pytest.mark.parametrize(
    ("data", "stream", "error"),
    [
        (5, "stdout", InvalidInput),
        (None, "stdout", InvalidInput),
        ("\ud800", "stdout", InvalidInput),
        ("x", "nowhere", InvalidInput),
        ("x", None, InvalidInput),
        (b"x" * (CALL_BYTES_MAX + 1), "stdout", PayloadTooLarge),
    ],
)
async def test_what_is_no_output(data: Any, stream: Any, error: type[Exception]) -> None:
    sink = Sink()
    with pytest.raises(error):
        await OutputWriter(sink).write(stream, data)
    assert sink.parts == []
