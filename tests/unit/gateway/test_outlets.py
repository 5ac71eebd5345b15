"""The queue of a connection that a task writes: its bounds in bytes and in frames."""

from __future__ import annotations

from holdfast.clock import SystemClock
from holdfast.core.subscription import BUFFER_FRAMES, FlowBounds
from holdfast.gateway.feed.outlets import QueueOutlet


async def test_a_queue_is_full_above_its_frames_and_drained_when_they_were_written() -> None:
    calls: list[str] = []
    outlet = QueueOutlet(FlowBounds())
    outlet.on_full = lambda: calls.append("full")
    outlet.on_drained = lambda: calls.append("drained")
    clock = SystemClock()
    outlet.write(b"data: 1\n\n" * BUFFER_FRAMES)
    assert calls == []
    outlet.write(b"data: 1\n\n")
    outlet.write(b"data: 1\n\n")
    assert calls == ["full"]
    taken = await outlet.take(clock, 0.0)
    assert taken is not None
    assert b"".join(taken).count(b"\n\n") == BUFFER_FRAMES + 2
    assert calls == ["full"], "what was taken is not yet written"
    await outlet.take(clock, 0.0)
    assert calls == ["full", "drained"]
    assert outlet.buffered() == 0


async def test_a_queue_is_full_above_its_bytes() -> None:
    calls: list[str] = []
    outlet = QueueOutlet(FlowBounds(high_bytes=100, low_bytes=20), b"\n")
    outlet.on_full = lambda: calls.append("full")
    outlet.on_drained = lambda: calls.append("drained")
    outlet.write(b"x" * 100 + b"\n")
    assert calls == ["full"]
    await outlet.take(SystemClock(), 0.0)
    outlet.write(b"x" * 10)
    await outlet.take(SystemClock(), 0.0)
    assert calls == ["full", "drained"]
