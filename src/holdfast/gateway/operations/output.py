"""Operations on what running tasks add to: output and checkpoints."""

from __future__ import annotations

import base64
from typing import Any, Final

from holdfast.core.check import check_whole
from holdfast.core.output import StreamName
from holdfast.core.rights import Operation
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.tasks import readable
from holdfast.sync import views
from holdfast.sync.worker import reads
from holdfast.sync.worker.reads import PAGE_BYTES, OutputPage

O: Final = Operation  # noqa: E741
LIMIT_BYTES_MAX: Final = 4 * PAGE_BYTES
_CHARACTER_BYTES: Final = 4


async def read(
    call: Call,
    task_id: str,
    *,
    stream: str = StreamName.STDOUT.value,
    fence: int | None = None,
    start: int = 0,
    limit_bytes: int = PAGE_BYTES,
) -> Answer:
    """A part of a stream of the task's output: of its latest run unless `fence` names one."""
    task = await readable(call, O.OUTPUT_READ, task_id)
    size = check_whole("limit_bytes", limit_bytes, least=1, most=LIMIT_BYTES_MAX)
    page = await reads.output_page(
        call.services.store, task, stream, fence=fence, start=start, size=size
    )
    return output_answer(page)


async def checkpoints(call: Call, task_id: str) -> Answer:
    """The last checkpoints of the task, oldest first."""
    task = await readable(call, O.TASKS_READ, task_id)
    rows = await reads.checkpoints(call.services.store, task.id)
    return Answer({"items": [views.checkpoint(row) for row in rows], "next": None})


def output_answer(page: OutputPage) -> Answer:
    """A part of a stream as JSON, and as raw bytes for a client that accepts text."""
    headers = {
        "Holdfast-Output-Fence": str(page.fence),
        "Holdfast-Output-Next": str(page.next),
        "Holdfast-Output-End": str(page.end),
    }
    return Answer(_page(page), text=page.data, headers=headers)


def _page(page: OutputPage) -> dict[str, Any]:
    data, through = page.data, page.next
    if not page.gaps and through < page.end:
        # A page that ends within a character ends before it, so that both pages are text.
        data = _whole_characters(data)
        through = page.start + len(data)
    view: dict[str, Any] = {"stream": page.stream, "fence": page.fence, "start": page.start}
    try:
        view["text"] = data.decode()
    except UnicodeDecodeError:
        view["data_base64"] = base64.b64encode(page.data).decode()
        through = page.next
    gaps = [{"start": start, "size": size} for start, size in page.gaps]
    ends = {"next": through, "end": page.end, "complete": page.complete}
    return {**view, **ends, "gaps": gaps}


def _whole_characters(data: bytes) -> bytes:
    """The bytes without a character at the end that is cut off."""
    for back in range(1, min(_CHARACTER_BYTES, len(data))):
        if data[-back] >= 0xC0:
            return data[:-back] if _length(data[-back]) > back else data
    return data


def _length(first: int) -> int:
    """The bytes of a character that starts with this one."""
    return 2 if first < 0xE0 else 3 if first < 0xF0 else 4
