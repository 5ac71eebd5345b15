"""What the live feed reads beside the events, on every store."""

from __future__ import annotations

from holdfast.core.event import Event, Position
from holdfast.core.subscription import OUTPUT_BYTES_MAX
from holdfast.core.worker.wire import OutputChunk
from holdfast.gateway.feed.prepare import WithOutput
from holdfast.store.feed import Page
from holdfast.store.store import Store
from holdfast.sync import live_reads
from holdfast.sync.live_reads import Chunk, LiveReads
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.conformance.worker.test_worker_messages import running


async def outputs(store: Store) -> list[Event]:
    """The output events of the feed, as the live feed sends them."""
    head = await store.feed.head()
    page = await store.feed.read(Position(head.epoch, 0), 1_000)
    assert isinstance(page, Page)
    prepared = await WithOutput(LiveReads(store))(page.events)
    assert [event.position for event in prepared] == [event.position for event in page.events]
    return [event for event in prepared if event.kind == "task.output"]


def chunk(data: bytes, start: int | None = None, stream: str = "stdout") -> OutputChunk:
    return OutputChunk(task_id="t", fence=1, stream=stream, start=start, data=data)


async def test_output_events_get_their_bytes(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    await worker.send(chunk(b"one "), chunk(b"\xff\xfe", stream="stderr"))
    await worker.send(chunk(b"two", start=4))
    events = await outputs(store)
    assert [(event.data["stream"], event.data["start"]) for event in events] == [
        ("stdout", 0),
        ("stderr", 0),
        ("stdout", 4),
    ]
    assert [event.data.get("data") for event in events] == ["one ", None, "two"]
    assert events[1].data["data_base64"] == "//4="


async def test_large_chunks_are_announced_only(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    await worker.send(chunk(b"x" * (OUTPUT_BYTES_MAX + 1)))
    await worker.send(chunk(b"end", start=OUTPUT_BYTES_MAX + 1))
    large, small = await outputs(store)
    assert large.data["data_omitted"] is True
    assert "data" not in large.data
    assert small.data["data"] == "end"


async def test_a_page_of_much_output_is_read_in_parts(store: Store, sync: WorkerSync) -> None:
    worker = await running(store, sync)
    for nth in range(6):
        await worker.send(chunk(b"abcd", start=4 * nth))
    reads = LiveReads(store)
    chunks = [Chunk("t", 1, "stdout", 4 * nth, 4) for nth in range(6)]
    whole = await reads.output(chunks)
    assert [[piece.data for piece in pieces] for pieces in whole] == [[b"abcd"]] * 6
    large = [Chunk("t", 1, "stdout", 0, live_reads.READ_BYTES), *chunks]
    assert [len(pieces) for pieces in await reads.output(large)] == [6, 1, 1, 1, 1, 1, 1]
    assert await reads.output([]) == []


async def test_the_runs_of_a_node(store: Store, sync: WorkerSync) -> None:
    await running(store, sync)
    reads = LiveReads(store)
    assert await reads.held_by("w1") == [("t", 1)]
    assert await reads.held_by("w2") == []
    assert (await reads.counts(None))["running"] == 1
    assert (await reads.counts("default"))["running"] == 1
    assert (await reads.counts("other"))["running"] == 0
