"""The output of runs on hosts, as a batch of syncs brings it.

Promises: bytes of a running execution go the way of every task's output. When the agent has sent all that its
result counts, each stream becomes one blob; equal contents of many hosts are one row. Secrets are removed
before anything is stored. Never: holds more than `PAGE_BYTES` of stored output in memory, and one run more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from holdfast.core.event import NewEvent
from holdfast.core.fleet.agents.facts import EndedRun, JobCommand, PlacedChunk, RunCommand
from holdfast.core.fleet.agents.result_rules import NO_START
from holdfast.core.fleet.agents.run_output import (
    Assembled,
    StreamState,
    assembled,
    blob_names,
    digest_of,
    read_states,
    state_of,
    waiting,
    write_states,
)
from holdfast.core.fleet.model import Execution
from holdfast.core.output import Piece, Placement, StreamName
from holdfast.core.task import Task
from holdfast.fleet.agents.rows import own
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.live import OutputRows, Stream, output_event

PAGE_BYTES: Final = 8 * 1_048_576
Redact: TypeAlias = Callable[[RunCommand, bytes], bytes]
"""Removes the secrets of a command from its output. The length stays."""


def keep_all(_command: RunCommand, data: bytes) -> bytes:
    """The redaction of jobs without secrets."""
    return data


class Placed(msgspec.Struct):
    """What became of the output of a batch."""

    log_next: dict[tuple[str, str], int] = {}
    """(task id, stream) -> the next byte that is wanted."""
    states: dict[str, str] = {}
    """`output_json` of executions, by task id."""
    events: list[NewEvent] = []
    received: int = 0
    folded: int = 0
    """Bytes of ended streams that were stored already, for another host."""


class _Run(NamedTuple):
    task_id: str
    fence: int


class RunOutputs:
    """The output that one transaction adds."""

    def __init__(
        self,
        tasks: Mapping[str, Task],
        executions: Mapping[str, Execution],
        jobs: Mapping[str, JobCommand],
        redact: Redact,
    ) -> None:
        self._tasks = tasks
        self._executions = executions
        self._jobs = jobs
        self._redact = redact
        self._rows = OutputRows()
        self._blobs: dict[str, bytes] = {}
        self._refs: Counter[str] = Counter()
        self.placed = Placed()

    def add(
        self, chunks: Sequence[PlacedChunk], ended: Sequence[EndedRun], now: float
    ) -> Script[Placed]:
        """Places chunks, and closes the output of runs that have ended."""
        closing = [run for run in ended if run.result.state not in NO_START]
        if not chunks and not closing:
            return self.placed
        streams = {Stream(c.task_id, c.fence, c.stream) for c in chunks}
        streams |= {Stream(run.task_id, run.fence, name) for run in closing for name in StreamName}
        yield from self._rows.load(streams)
        quiet = {_Run(run.task_id, run.fence) for run in closing}
        for chunk in chunks:
            yield from self._place(chunk, now, is_quiet=_Run(chunk.task_id, chunk.fence) in quiet)
        stored = [run for run in closing if self._close(run)]
        yield from self._rows.save(now)
        yield from self._close_stored(stored)
        yield from self._save_blobs()
        return self.placed

    def _place(self, chunk: PlacedChunk, now: float, *, is_quiet: bool) -> Script[None]:
        stream = Stream(chunk.task_id, chunk.fence, chunk.stream)
        where = (chunk.task_id, chunk.stream)
        if chunk.gap:
            self.placed.log_next[where] = self._rows.add_gap(stream, chunk.start, chunk.gap)
            return
        data = self._redacted(self._executions[chunk.task_id], chunk.data)
        placed = yield from self._rows.add(stream, chunk.start, data)
        self.placed.log_next[where] = placed.end
        if placed.outcome is Placement.APPEND:
            self.placed.received += len(placed.data)
            task = self._tasks[chunk.task_id]
            if not is_quiet:  # the end of the task has its own event
                node = self._executions[task.id].host_id
                event = output_event(task, chunk.stream, placed, now, node=node)
                self.placed.events.append(event)

    def _close(self, run: EndedRun) -> bool:
        """Closes a run whose bytes are all in memory. Returns whether its rows have to be read."""
        streams = {name: Stream(run.task_id, run.fence, name) for name in StreamName}
        sizes = run.result.sizes
        ends = {str(name): self._rows.end(stream) for name, stream in streams.items()}
        if any(ends[name] < size for name, size in sizes.items()):
            self.placed.states[run.task_id] = write_states(waiting(sizes, ends))
            return False
        if any(self._rows.is_stored(stream) for stream in streams.values()):
            return True
        pieces = {str(name): self._rows.take(stream) for name, stream in streams.items()}
        self._finish(run, pieces)
        return False

    def _close_stored(self, ended: Sequence[EndedRun]) -> Script[None]:
        """Closes runs whose bytes are in rows, some at a time."""
        if not ended:
            return
        runs = {_Run(run.task_id, run.fence): run for run in ended}
        sizes = yield call_rows(own("run_sizes"), [tuple(run) for run in runs])
        for page in _pages({_Run(*row[:2]): row[2] for row in sizes}):
            keys: list[tuple[Any, ...]] = [tuple(run) for run in page]
            rows = yield call_rows(own("run_pieces"), keys)
            pieces: dict[_Run, dict[str, list[Piece]]] = {run: {} for run in page}
            for task_id, fence, stream, start, size, text in rows:
                data = None if text is None else bytes.fromhex(text)
                parts = pieces[_Run(task_id, fence)].setdefault(stream, [])
                parts.append(Piece(start, size, data))
            for run in page:
                self._finish(runs[run], pieces[run])
            yield call_rows(own("drop_run_output"), keys)
            yield from self._save_blobs()

    def _finish(self, run: EndedRun, pieces: Mapping[str, Sequence[Piece]]) -> None:
        """Each stream becomes a blob."""
        execution = self._executions[run.task_id]
        states: dict[str, StreamState] = {}
        for name in StreamName:
            expected = run.result.sizes.get(name)
            kept = assembled(pieces.get(name, ()))
            if not kept.end and expected is None:
                continue
            data = self._redacted(execution, kept.data)
            kept = Assembled(data, kept.gaps, kept.end)
            state = state_of(kept, expected, digest_of(data))
            states[str(name)] = state
            self._refer(state, data)
        for digest in blob_names(read_states(execution.output_json).values()):
            self._refs[digest] -= 1  # of an earlier attempt
        self.placed.states[run.task_id] = write_states(states)

    def _redacted(self, execution: Execution, data: bytes) -> bytes:
        return self._redact(self._jobs[execution.job_id].command, data)

    def _refer(self, state: StreamState, data: bytes) -> None:
        if state.sha256 is None or not data:
            return
        if state.sha256 in self._blobs:
            self.placed.folded += len(data)
        self._blobs[state.sha256] = data
        self._refs[state.sha256] += 1

    def _save_blobs(self) -> Script[None]:
        rows: list[tuple[Any, ...]] = [
            (digest, len(data), data.hex(), self._refs[digest])
            for digest, data in sorted(self._blobs.items())
        ]
        if rows:
            yield call_rows(own("add_blobs"), rows)
        gone: list[tuple[Any, ...]] = [
            (digest, -n)
            for digest, n in sorted(self._refs.items())
            if n < 0 and digest not in self._blobs
        ]
        if gone:
            yield call_rows("holdfast.fleet:release_blobs", gone)
            yield call("holdfast.fleet:forget_blobs", ids=[digest for digest, _ in gone])
        self._blobs.clear()
        self._refs.clear()


def _pages(sizes: Mapping[_Run, int]) -> Iterator[list[_Run]]:
    """Runs in groups of at most `PAGE_BYTES`, or of one."""
    page: list[_Run] = []
    total = 0
    for run, size in sizes.items():
        if page and total + size > PAGE_BYTES:
            yield page
            page, total = [], 0
        page.append(run)
        total += size
    if page:
        yield page
