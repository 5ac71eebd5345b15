"""Adds to a page of events what is stored beside them: the bytes of output, the names of tasks.

Promises: one read of each for a page, or none if the page has no output and no unknown task. A chunk of more
than `OUTPUT_BYTES_MAX` is announced without its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.core.event import Event
from holdfast.core.output_frame import output_data
from holdfast.core.subscription import OUTPUT_BYTES_MAX
from holdfast.gateway.feed.ports import Prepare
from holdfast.sync.live_reads import Chunk, LiveReads
from holdfast.sync.names import ClientNames

OUTPUT = "task.output"


class WithOutput:
    """See `Prepare`."""

    def __init__(self, reads: LiveReads) -> None:
        self._reads = reads

    async def __call__(self, events: Sequence[Event]) -> Sequence[Event]:
        chunks = {
            nth: chunk
            for nth, event in enumerate(events)
            if event.kind == OUTPUT and (chunk := chunk_of(event)) is not None
        }
        small = {nth: chunk for nth, chunk in chunks.items() if chunk.size <= OUTPUT_BYTES_MAX}
        if not chunks:
            return events
        stored = await self._reads.output(list(small.values()))
        prepared = list(events)
        for nth in chunks.keys() - small.keys():
            prepared[nth] = _with(events[nth], {"data_omitted": True})
        for (nth, chunk), pieces in zip(small.items(), stored, strict=True):
            prepared[nth] = _with(events[nth], output_data(chunk.start, chunk.size, pieces))
        return prepared


class WithNames:
    """Adds `client_id` to events about tasks that a node has named. See `Prepare`."""

    def __init__(self, names: ClientNames, then: Prepare) -> None:
        self._names = names
        self._then = then

    async def __call__(self, events: Sequence[Event]) -> Sequence[Event]:
        return await self._then(await named(self._names, events))


async def named(names: ClientNames, events: Sequence[Event]) -> Sequence[Event]:
    """The events with the names of their tasks."""
    by_id = await names.of({event.task_id for event in events})
    if not by_id:
        return events
    return [
        _with(event, {"client_id": by_id[event.task_id]})
        if event.task_id in by_id and "client_id" not in event.data
        else event
        for event in events
    ]


def _with(event: Event, fields: dict[str, Any]) -> Event:
    return replace(event, data={**event.data, **fields})


def chunk_of(event: Event) -> Chunk | None:
    """The range that the event is about. None for an event of another form."""
    data = event.data
    match data.get("fence"), data.get("stream"), data.get("start"), data.get("size"):
        case int() as fence, str() as stream, int() as start, int() as size:
            return Chunk(event.task_id, fence, stream, start, size)
    return None
