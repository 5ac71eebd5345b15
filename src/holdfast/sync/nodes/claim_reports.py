"""What a node that claimed a task by its name writes: output and named checkpoints.

Promises: only the holder writes, under the fence and the claim that it names, in the transaction that judges
it. A repeat is answered and changes nothing, also after the claim has ended: output is known by its offset
and bytes, a checkpoint by its id. Never: extends a lease; raises the version of a task.
"""

from __future__ import annotations

from functools import partial

import msgspec

from holdfast.core.check import check_choice, check_whole
from holdfast.core.command import Instruction, NamedPoint, OutputPart, Report, named_point
from holdfast.core.errors import TooLarge
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.core.ids import Ids
from holdfast.core.output import Placement, StreamName
from holdfast.core.speaking import Voice
from holdfast.core.submit import PAYLOAD_BYTES_MAX, encode_payload
from holdfast.core.wire import WHOLE_MAX, check_new_id
from holdfast.core.worker.wire import CHUNK_BYTES_MAX
from holdfast.errors import Conflict
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts import apply, checkpoints
from holdfast.store.scripts.live import REFUSED, OutputRows, Stream, output_event
from holdfast.store.store import Store
from holdfast.sync.nodes.node_task import ClaimRef, Reported, locked_for
from holdfast.sync.sync_task import SyncTask
from holdfast.sync.worker.live_rows import own


class Written(msgspec.Struct, frozen=True):
    """The answer to a report. `lost`: why the claim is gone; nothing was written then."""

    task: SyncTask
    fence: int
    """The run that it belongs to."""
    is_duplicate: bool = False
    end: int = 0
    """Of output: where the stream ends now."""
    refused: str | None = None
    """Of output: why it does not follow what is stored. It goes on at `end`."""
    lost: str | None = None


class ClaimReports:
    """The use cases."""

    def __init__(self, store: Store, rules: HubRules = RULES) -> None:
        self._store = store
        self._rules = rules

    async def output(
        self, voice: Voice, task_id: str, claim: ClaimRef, part: OutputPart
    ) -> Written:
        """Appends bytes to a stream of the run. A part that starts before the end is compared with what is
        stored; one that starts behind it is refused."""
        check_choice("stream", part.stream, StreamName)
        check_whole("start", part.start, least=0, most=WHOLE_MAX)
        if len(part.data) > CHUNK_BYTES_MAX:
            raise TooLarge(f"a chunk has at most {CHUNK_BYTES_MAX} bytes: send several")
        request = Reported(voice, task_id, claim, self._rules)
        return await self._store.run(partial(_output, request=request, part=part))

    async def checkpoint(
        self, voice: Voice, task_id: str, claim: ClaimRef, point: NamedPoint, data: object
    ) -> Written:
        """Adds a named checkpoint. Its data is what the next run of the task starts from."""
        point = named_point(check_new_id("checkpointId", point.id), point.type, point.note)
        text = encode_payload(data, what="checkpoint", limit=PAYLOAD_BYTES_MAX)
        report = Report(checkpoint_json=text, point=point)
        request = Reported(voice, task_id, claim, self._rules)
        return await self._store.run(partial(_checkpoint, request=request, report=report))


def _output(
    dialect: Dialect, ids: Ids, now: float, *, request: Reported, part: OutputPart
) -> Script[Written]:
    seen = yield from locked_for(request, dialect, ids, now)
    task, row, claim = seen.task, seen.row, request.claim
    is_held = seen.is_held(claim)
    was_held = row.claim_node == seen.node.id and row.claim_fence == claim.fence
    fence = task.fence if is_held else claim.fence or 0
    rows, stream = OutputRows(), Stream(task.id, fence, part.stream)
    placed = None
    if is_held or was_held:
        yield from rows.load([stream])
        placed = yield from rows.add(stream, part.start, part.data)
    if placed is not None and placed.outcome is Placement.DUPLICATE:
        yield from seen.finish()
        return Written(seen.view, fence, is_duplicate=True, end=placed.end)
    if placed is None or not is_held:
        why, _ = yield from seen.refuse_lost("output")
        return Written(seen.view, fence, lost=why)
    if template := REFUSED.get(placed.outcome):
        yield from seen.finish()
        refused = template.format(start=part.start, end=placed.end)
        return Written(seen.view, fence, end=placed.end, refused=refused)
    seen.work.mention([output_event(task, part.stream, placed, now, node=seen.node.id)])

    def beside(now: float) -> Script[tuple[()]]:
        yield from rows.save(now)
        return ()

    yield from seen.finish(beside)
    return Written(seen.view, fence, end=placed.end)


def _checkpoint(
    dialect: Dialect, ids: Ids, now: float, *, request: Reported, report: Report
) -> Script[Written]:
    seen = yield from locked_for(request, dialect, ids, now)
    task, claim = seen.task, request.claim
    point, data_json = report.point, report.checkpoint_json
    assert point is not None
    assert data_json is not None
    owners = yield call(own("existing_checkpoints"), ids=[point.id])
    if owners:
        if owners[0][1] != task.id:
            raise Conflict(f"checkpoint {point.id} belongs to another task")
        yield from seen.finish()
        return Written(seen.view, claim.fence or task.fence, is_duplicate=True)
    if not seen.is_held(claim):
        why, _ = yield from seen.refuse_lost("checkpoint")
        return Written(seen.view, claim.fence or 0, lost=why)
    apply.carry_out(seen.work, Instruction(task.id, report, task.fence))

    def beside(now: float) -> Script[tuple[()]]:
        yield from checkpoints.add(task, point, data_json, now)
        return ()

    yield from seen.finish(beside)
    return Written(seen.view, task.fence)
