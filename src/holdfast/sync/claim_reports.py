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
from holdfast.sync.claims import Sign, check_fence, holds, loaded, refuse_lost, why_lost
from holdfast.sync.rows import read_project
from holdfast.sync.speaking import heard
from holdfast.sync.sync_task import SyncTask, view
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

    async def output(self, voice: Voice, task_id: str, sign: Sign, part: OutputPart) -> Written:
        """Appends bytes to a stream of the run. A part that starts before the end is compared with what is
        stored; one that starts behind it is refused."""
        check_choice("stream", part.stream, StreamName)
        check_whole("start", part.start, least=0, most=WHOLE_MAX)
        if len(part.data) > CHUNK_BYTES_MAX:
            raise TooLarge(f"a chunk has at most {CHUNK_BYTES_MAX} bytes: send several")
        return await self._store.run(
            partial(_output, voice=voice, task_id=task_id, sign=sign, part=part, rules=self._rules)
        )

    async def checkpoint(
        self, voice: Voice, task_id: str, sign: Sign, point: NamedPoint, data: object
    ) -> Written:
        """Adds a named checkpoint. Its data is what the next run of the task starts from."""
        point = named_point(check_new_id("checkpointId", point.id), point.type, point.note)
        text = encode_payload(data, what="checkpoint", limit=PAYLOAD_BYTES_MAX)
        return await self._store.run(
            partial(
                _checkpoint,
                voice=voice,
                task_id=task_id,
                sign=sign,
                report=Report(checkpoint_json=text, point=point),
                rules=self._rules,
            )
        )


def _output(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    voice: Voice,
    task_id: str,
    sign: Sign,
    part: OutputPart,
    rules: HubRules,
) -> Script[Written]:
    node = yield from heard(voice)
    check_fence(node, sign.fence, rules)
    work, task, row = yield from loaded(task_id, now)
    is_held = holds(task, node, sign)
    was_held = row.claim_node == node.id and row.claim_fence == sign.fence
    fence = task.fence if is_held else sign.fence or 0
    rows, stream = OutputRows(), Stream(task.id, fence, part.stream)
    placed = None
    if is_held or was_held:
        yield from rows.load([stream])
        placed = yield from rows.add(stream, part.start, part.data)
    if placed is not None and placed.outcome is Placement.DUPLICATE:
        yield from apply.finish(work, ids.record(now), dialect)
        return Written(view(task, row), fence, is_duplicate=True, end=placed.end)
    if placed is None or not is_held:
        clock = (yield from read_project(task.project)).clock
        record = dialect, ids.record(now)
        yield from refuse_lost("output", work, row, node, clock=clock, record=record)
        return Written(view(task, row), fence, lost=why_lost(task, row, node))
    if template := REFUSED.get(placed.outcome):
        yield from apply.finish(work, ids.record(now), dialect)
        why = template.format(start=part.start, end=placed.end)
        return Written(view(task, row), fence, end=placed.end, refused=why)
    work.mention([output_event(task, part.stream, placed, now, node=node.id)])

    def beside(now: float) -> Script[tuple[()]]:
        yield from rows.save(now)
        return ()

    yield from apply.finish(work, ids.record(now), dialect, then=beside)
    return Written(view(task, row), fence, end=placed.end)


def _checkpoint(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    voice: Voice,
    task_id: str,
    sign: Sign,
    report: Report,
    rules: HubRules,
) -> Script[Written]:
    node = yield from heard(voice)
    check_fence(node, sign.fence, rules)
    work, task, row = yield from loaded(task_id, now)
    point, data_json = report.point, report.checkpoint_json
    assert point is not None
    assert data_json is not None
    owners = yield call(own("existing_checkpoints"), ids=[point.id])
    if owners:
        if owners[0][1] != task.id:
            raise Conflict(f"checkpoint {point.id} belongs to another task")
        yield from apply.finish(work, ids.record(now), dialect)
        return Written(view(task, row), sign.fence or task.fence, is_duplicate=True)
    if not holds(task, node, sign):
        clock = (yield from read_project(task.project)).clock
        record = dialect, ids.record(now)
        yield from refuse_lost("checkpoint", work, row, node, clock=clock, record=record)
        return Written(view(task, row), sign.fence or 0, lost=why_lost(task, row, node))
    apply.carry_out(work, Instruction(task.id, report, task.fence))

    def beside(now: float) -> Script[tuple[()]]:
        yield from checkpoints.add(task, point, data_json, now)
        return ()

    yield from apply.finish(work, ids.record(now), dialect, then=beside)
    return Written(view(work.tasks[task.id], row), task.fence)
