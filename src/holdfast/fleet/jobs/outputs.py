"""The output of a job's executions: one log, or all of them with equal ones once.

Promises: the start of any log comes at once; a log that is too long has its gap named. Never: reads the
outputs of all hosts; equal ones are stored once, and one of each is read.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.core.check import check_choice, check_whole
from holdfast.core.fleet.agents.run_output import StreamState, read_states
from holdfast.core.fleet.jobs.folded import GROUPS_SHOWN, FoldedOutput, HostOutput, fold_outputs
from holdfast.core.fleet.model import Job
from holdfast.core.output import StreamName
from holdfast.core.wire import WHOLE_MAX
from holdfast.fleet.jobs.reads import ExecutionView
from holdfast.fleet.jobs.rows import own
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.worker.reads import PAGE_BYTES, OutputPage, output_page

PAGE: Final = 5_000
"""Executions that one statement reads."""
SAMPLE_BYTES: Final = 4_096
"""Bytes of the output that stands for a group."""


class JobOutputs:
    """The reads of outputs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def folded(
        self, job: Job, *, stream: str = StreamName.STDOUT.value, limit: int = GROUPS_SHOWN
    ) -> FoldedOutput:
        """The outputs of all hosts, the largest group of equal ones first."""
        name = check_choice("stream", stream, StreamName).value
        return await self._store.read(lambda: _folded(job.id, name, limit))

    async def log(
        self,
        view: ExecutionView,
        *,
        stream: str = StreamName.STDOUT.value,
        start: int = 0,
        limit_bytes: int = PAGE_BYTES,
    ) -> OutputPage:
        """A part of a stream of an execution: of its latest run."""
        name = check_choice("stream", stream, StreamName).value
        check_whole("start", start, least=0, most=WHOLE_MAX)
        check_whole("limit_bytes", limit_bytes, least=1, most=4 * PAGE_BYTES)
        state = read_states(view.execution.output_json).get(name)
        fence = view.execution.fence
        if state is None or state.sha256 is None:
            return await output_page(
                self._store, view.task, name, fence=fence, start=start, size=limit_bytes
            )
        data = b""
        if state.kept:
            sha256 = state.sha256
            data = (await self._store.read(lambda: _blobs([sha256], state.kept))).get(sha256, b"")
        return page_of(state, data, name, fence or 0, start=start, size=limit_bytes)


def page_of(
    state: StreamState, data: bytes, stream: str, fence: int, *, start: int, size: int
) -> OutputPage:
    """The part of an ended stream from `start` on: at most `size` bytes that were kept, and the gaps between
    them, however long. `data` are the bytes that are kept. If they are gone, all is one gap."""
    known = state.gaps if len(data) >= state.kept else [(0, state.bytes)]
    parts: list[bytes] = []
    gaps: list[tuple[int, int]] = []
    at = kept = 0
    place, room = start, size
    for gap_start, gap_size in [*known, (state.bytes, 0)]:
        if at <= place < gap_start:
            taken = min(gap_start - place, room)
            parts.append(data[kept + place - at : kept + place - at + taken])
            place, room = place + taken, room - taken
        kept += max(0, gap_start - at)
        at = gap_start + gap_size
        if gap_start <= place < at and room:
            gaps.append((place, at - place))
            place = at
    return OutputPage(
        stream=stream,
        fence=fence,
        start=start,
        data=b"".join(parts),
        next=place,
        end=state.bytes,
        complete=True,
        gaps=gaps,
    )


def _folded(job_id: str, stream: str, limit: int) -> Script[FoldedOutput]:
    outputs: list[HostOutput] = []
    after = -1
    while True:
        rows = yield call(own("outputs_page"), job_id=job_id, after=after, limit=PAGE)
        for nth, host, output_json, _ended_at in rows:
            after = nth
            state = read_states(output_json).get(stream)
            outputs.append(
                HostOutput(host) if state is None else HostOutput(host, state.sha256, state.bytes)
            )
        if len(rows) < PAGE:
            break
    folded = fold_outputs(outputs, limit)
    samples = yield from _blobs([group.sha256 for group in folded.groups], SAMPLE_BYTES)
    groups = tuple(
        replace(group, sample=samples.get(group.sha256, b"").decode(errors="replace"))
        for group in folded.groups
    )
    return replace(folded, groups=groups)


def _blobs(ids: list[str], size: int) -> Script[dict[str, bytes]]:
    """The starts of outputs, by their names."""
    rows = yield call(own("get_blobs"), ids=ids, start=0, limit=size)
    return {sha256: bytes.fromhex(text) for sha256, _, text in rows}
