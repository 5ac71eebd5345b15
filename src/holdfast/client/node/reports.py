"""Sends what claims have written: output and named checkpoints.

Promises: reports are sent in the order of writing, one request at a time, with the fence of their claim. A
repeat after a lost answer changes nothing: the server knows output by its offset and checkpoints by their id.
What the server refuses is kept with the conflicts of the node and blocks nothing after it.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any, Final

from holdfast.client.node.journal import Journal
from holdfast.client.node.report_log import HeldClaim, WrittenOutput, WrittenPoint, WrittenReport
from holdfast.client.node.wire import SyncWire
from holdfast.client.problems import problem_of
from holdfast.clock import Clock
from holdfast.core import codec
from holdfast.core.check import check_choice
from holdfast.core.command import POINT_PREFIX, named_point
from holdfast.core.errors import NodeFenced, TooLarge, UnknownNode
from holdfast.core.exchange.offline import Fields
from holdfast.core.ids import Ids
from holdfast.core.output import StreamName, parts, written
from holdfast.core.submit import PAYLOAD_BYTES_MAX, encode_payload
from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidInput,
    LeaseLost,
    NotFound,
    QueueFull,
)

SEND_BYTES: Final = 131_072
"""Output of one request. Half of it when a gateway takes less."""
SEND_BYTES_MIN: Final = 1_000
UNSENT_BYTES_MAX: Final = 16_777_216
"""Output and checkpoints that wait on the disk for a connection."""


class Reports:
    """The reports of one node."""

    def __init__(self, journal: Journal, node_id: str, clock: Clock, ids: Ids) -> None:
        self._journal = journal
        self._log = journal.reports
        self._node_id = node_id
        self._clock = clock
        self._ids = ids
        self._lock = asyncio.Lock()
        self._send_bytes = SEND_BYTES

    def is_waiting(self, task_id: str) -> bool:
        """Whether reports of a task wait to be sent."""
        return self._log.is_waiting(task_id)

    def add_output(self, claim: HeldClaim, data: str | bytes, stream: str) -> None:
        """Writes bytes to the disk. QueueFull if too much waits there."""
        name = check_choice("stream", stream, StreamName).value
        content = written(data)
        self._check_room(len(content))
        if content:
            self._log.append_output(claim, name, list(parts(content)))

    def add_point(self, claim: HeldClaim, type: str, data: Any, note: str) -> str:
        """Writes a named checkpoint to the disk. Returns its id. QueueFull if too much waits there."""
        point = named_point(POINT_PREFIX + self._ids.secret(), type, note)
        text = encode_payload(data, what="checkpoint", limit=PAYLOAD_BYTES_MAX)
        fields = {"checkpointId": point.id, "type": type, "note": note, "data": codec.loads(text)}
        self._check_room(len(text))
        self._log.append_point(claim, fields)
        return point.id

    def _check_room(self, size: int) -> None:
        if self._log.size() + size > UNSENT_BYTES_MAX:
            raise QueueFull(
                f"output and checkpoints of {UNSENT_BYTES_MAX} bytes wait for a connection: sync first"
            )

    async def send(self, wire: SyncWire, task_id: str | None = None) -> list[HoldfastError]:
        """Sends what waits, of one task or of all. Returns the refusals, which are kept as conflicts. An
        error that is not about a report is raised; the rest waits."""
        refusals: list[HoldfastError] = []
        async with self._lock:
            while (report := self._log.head(self._send_bytes, task_id)) is not None:
                try:
                    await self._send(wire, report)
                except (NodeFenced, UnknownNode):
                    raise
                except TooLarge as error:
                    if isinstance(report, WrittenOutput) and self._send_bytes > SEND_BYTES_MIN:
                        self._send_bytes //= 2
                        continue
                    self._refuse([report], error, refusals)
                except (LeaseLost, NotFound) as error:
                    # The whole run is over for the server.
                    self._refuse(self._log.of_claim(report.claim), error, refusals)
                except (Conflict, InvalidInput) as error:
                    self._refuse([report], error, refusals)
                else:
                    self._log.remove(report)
        return refusals

    async def _send(self, wire: SyncWire, report: WrittenReport) -> None:
        claim = report.claim
        names = {"nodeId": self._node_id, "fence": claim.fence, "claimId": claim.claim_id}
        if isinstance(report, WrittenPoint):
            await wire.checkpoint(claim.task_id, {**names, **report.point})
            return
        # A row may be larger than what a gateway takes at once.
        for at in range(0, len(report.data), self._send_bytes):
            part = report.data[at : at + self._send_bytes]
            chunk = _chunk(report.stream, report.start + at, part)
            await wire.output(claim.task_id, {**names, **chunk})

    def _refuse(
        self, reports: list[WrittenReport], error: HoldfastError, refusals: list[HoldfastError]
    ) -> None:
        answer = {"error": error.code.upper().replace("-", "_"), **problem_of(error)}
        answer.setdefault("detail", str(error))
        self._journal.refuse_reports(
            [(each, _change(each)) for each in reports], answer, self._clock.now()
        )
        refusals.append(error)


def _chunk(stream: str, start: int, data: bytes) -> Fields:
    return {"stream": stream, "start": start, "dataBase64": b64encode(data).decode()}


def _change(report: WrittenReport) -> Fields:
    """What the author sees of a report that was refused."""
    if isinstance(report, WrittenOutput):
        body = _chunk(report.stream, report.start, report.data)
        return {"fence": report.claim.fence, "output": body}
    return {"fence": report.claim.fence, "checkpoint": report.point}
