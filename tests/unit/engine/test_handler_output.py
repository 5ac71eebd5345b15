"""Output of handlers: the order of calls, interrupted calls, values that are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.command import OutputPart, Report
from holdfast.core.output import CALL_BYTES_MAX, PART_BYTES
from holdfast.engine.output_writer import OutputWriter
from holdfast.errors import InvalidInput, PayloadTooLarge, StoreUnavailable


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


class Unsure(Sink):
    """Raises for parts that it has stored or not, as a store does whose answer was lost."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = asyncio.Event()
        self.stores = True

    async def __call__(self, report: Report) -> None:
        if not self.fails.is_set() or self.stores:
            await super().__call__(report)
        if self.fails.is_set():
            raise StoreUnavailable("the answer was lost")


@pytest.mark.parametrize("stores", [True, False])
async def test_after_a_call_that_failed_other_bytes_follow(stores: bool) -> None:
    """The handler goes on with what it has to say. It does not know whether the first bytes were stored."""
    sink = Unsure()
    sink.stores = stores
    writer = OutputWriter(sink)
    sink.fails.set()
    with pytest.raises(StoreUnavailable):
        await writer.write("stdout", "a")
    sink.fails.clear()
    await writer.write("stdout", "bcd")
    await writer.write("stdout", "e")
    assert sink.text() == b"abcde"


@pytest.mark.parametrize("stores", [True, False])
async def test_a_call_that_failed_and_is_made_again_is_stored_once(stores: bool) -> None:
    sink = Unsure()
    sink.stores = stores
    writer = OutputWriter(sink)
    data = b"x" * PART_BYTES + b"y" * PART_BYTES + b"z"
    sink.fails.set()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await writer.write("stdout", data)
    sink.fails.clear()
    await writer.write("stdout", data)
    await writer.write("stdout", "end")
    assert sink.text() == data + b"end"
