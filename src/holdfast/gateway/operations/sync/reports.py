"""Operations of what a claim writes beside its task: output and named checkpoints (`/api/v2/sync`)."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

import msgspec

from holdfast.core.command import NamedPoint, OutputPart
from holdfast.core.exchange.sync_errors import SyncError
from holdfast.core.output import StreamName
from holdfast.core.rights import Operation
from holdfast.errors import InvalidInput
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.sync.speaker import named_task, refused, speaker
from holdfast.sync.nodes.claim_reports import Written
from holdfast.sync.nodes.node_task import ClaimRef


class OutputBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    start: int
    stream: str = StreamName.STDOUT.value
    text: str | None = None
    data_base64: str | None = None
    node_id: str | None = None
    incarnation: int | None = None
    fence: int | None = None
    claim_id: str | None = None


class CheckpointBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    checkpoint_id: str
    type: str
    note: str = ""
    data: Any = None
    node_id: str | None = None
    incarnation: int | None = None
    fence: int | None = None
    claim_id: str | None = None


async def output(call: Call, name: str, body: OutputBody) -> Answer:
    """Appends to a stream of a run. A repeat changes nothing; a part behind the end is refused."""
    row, voice = await speaker(call, body.node_id, Operation.SYNC_RUN, incarnation=body.incarnation)
    found = await named_task(call, name, row.project)
    claim = ClaimRef(fence=body.fence, claim_id=body.claim_id)
    part = OutputPart(body.stream, body.start, _bytes(body))
    written = await call.services.claim_reports.output(voice, found.task_id, claim, part)
    if written.lost is not None:
        return _lost(call, row.id, written)
    if written.refused is not None:
        error = SyncError.OUTPUT_GAP if body.start > written.end else SyncError.OUTPUT_MISMATCH
        return refused(call, error, written.refused, written.task, end=written.end)
    return Answer({**_answer(written), "stream": body.stream, "end": written.end})


async def checkpoint(call: Call, name: str, body: CheckpointBody) -> Answer:
    """Adds a named checkpoint to a task. A repeat with its id changes nothing."""
    row, voice = await speaker(call, body.node_id, Operation.SYNC_RUN, incarnation=body.incarnation)
    found = await named_task(call, name, row.project)
    claim = ClaimRef(fence=body.fence, claim_id=body.claim_id)
    point = NamedPoint(body.checkpoint_id, body.type, body.note)
    written = await call.services.claim_reports.checkpoint(
        voice, found.task_id, claim, point, body.data
    )
    if written.lost is not None:
        return _lost(call, row.id, written)
    return Answer({**_answer(written), "checkpointId": point.id})


def _answer(written: Written) -> dict[str, Any]:
    return {"success": True, "fence": written.fence, "duplicate": written.is_duplicate}


def _lost(call: Call, node: str, written: Written) -> Answer:
    detail = f"node '{node}' does not hold the task: {written.lost}"
    return refused(call, SyncError.LOCK_LOST, detail, written.task, reason=written.lost)


def _bytes(body: OutputBody) -> bytes:
    if (body.text is None) is (body.data_base64 is None):
        raise InvalidInput("output has either text or dataBase64")
    try:
        if body.text is not None:
            return body.text.encode()
        return b64decode(body.data_base64 or "", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("the output cannot be read as bytes") from None
