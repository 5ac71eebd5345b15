"""The next sync of an agent, from the state of its runs.

Promises: results and statuses go before output. A result goes out with the last of the output of its run, or
after it, because the server takes no output of a run that has ended. The message stays within the bounds of
the protocol. Output has no secrets of its command, wherever it is cut.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Final

import msgspec

from holdfast.agent.ports import Executor
from holdfast.agent.run import Run
from holdfast.agent.runs import Runs
from holdfast.agent.spool import Piece
from holdfast.core.fleet.agents.journal import Step
from holdfast.core.fleet.agents.wire import (
    ITEMS_MAX,
    AgentChunk,
    AgentCommandAck,
    AgentResult,
    AgentRun,
    TokenRef,
)
from holdfast.core.fleet.commands.secrets import context, redacted, settled

OUTPUT_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of output in one sync, before base64."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent has to say."""

    accepts: list[TokenRef] = []
    refuses: list[AgentResult] = []
    running: list[AgentRun] = []
    chunks: list[AgentChunk] = []
    results: list[AgentResult] = []
    command_acks: list[AgentCommandAck] = []

    @property
    def is_urgent(self) -> bool:
        """Whether it must not wait for the server to answer a held poll."""
        return bool(
            self.accepts or self.refuses or self.chunks or self.results or self.command_acks
        )


async def compose(runs: Runs, executor: Executor, output_bytes_max: int) -> Report:
    """The report of this moment."""
    if not (runs.by_token or runs.refuses or runs.command_acks):
        return Report()
    pieces = runs.spool.pieces(output_bytes_max, ITEMS_MAX)
    made = [await _chunk(runs, executor, piece) for piece in pieces]
    chunks = [chunk for chunk in made if chunk is not None]
    refuses = list(runs.refuses.values())
    results: list[AgentResult] = []
    running: list[AgentRun] = []
    for run in runs.by_token.values():
        sent = sum(piece.token == run.token for piece in pieces)
        if run.result is not None and runs.spool.left(run.token) <= sent:
            (refuses if run.is_later else results).append(run.result)
        elif run.step is not Step.ACCEPTED and not run.is_muted:
            running.append(_running(runs, run))
    return Report(
        accepts=[
            TokenRef(run.execution, run.token)
            for run in runs.by_token.values()
            if run.step is Step.ACCEPTED
        ],
        refuses=refuses[:ITEMS_MAX],
        running=running[:ITEMS_MAX],
        chunks=chunks,
        results=results[:ITEMS_MAX],
        command_acks=list(runs.command_acks.values())[:ITEMS_MAX],
    )


def _running(runs: Runs, run: Run) -> AgentRun:
    return AgentRun(
        execution=run.execution,
        token=run.token,
        phase=run.phase,
        log_end=runs.spool.ends(run.token),
    )


async def _chunk(runs: Runs, executor: Executor, piece: Piece) -> AgentChunk | None:
    """None: its bytes may be the start of a secret, and wait for the bytes behind them."""
    run = runs.by_token[piece.token]
    data = b"" if piece.is_gap else await _data(executor, run, piece)
    if data is None:
        return None
    is_missing = not piece.is_gap and not data
    return AgentChunk(
        execution=run.execution,
        token=piece.token,
        stream=piece.stream,
        start=piece.start,
        data_base64=b64encode(data).decode(),
        gap=piece.size if piece.is_gap or is_missing else 0,
    )


async def _data(executor: Executor, run: Run, piece: Piece) -> bytes | None:
    """The bytes of a piece, without secrets. Empty: they are not there."""
    if run.inline:
        return run.inline[piece.stream][piece.start : piece.start + piece.size]
    cut = 0 if run.result is None else _cut_before(run.result, piece)
    start, secrets = piece.start - cut, run.secrets
    if not secrets:
        return b64decode(await executor.read(str(run.token), piece.stream, start, piece.size))
    around = context(secrets)
    first = max(0, start - around)
    size = start - first + piece.size + around
    whole = b64decode(await executor.read(str(run.token), piece.stream, first, size))
    before, rest = whole[: start - first], whole[start - first :]
    data, after = rest[: piece.size], rest[piece.size :]
    if run.result is None and data:
        return settled(data, secrets, before=before, after=after) or None
    # Behind an edge the file goes on with other bytes than the output did.
    edge = _edge(run.result, piece.stream)
    is_cut_before = edge is not None and first <= edge <= start
    if edge is not None and is_cut_before:
        before = before[edge - first :]
    is_cut_after = edge is not None and start < edge <= first + size
    if edge is not None and is_cut_after:
        after = after[: edge - start - len(data)]
    has_no_end = run.result is not None and run.result.state != "exited"
    return redacted(
        data,
        secrets,
        before=before,
        after=after,
        is_cut_before=is_cut_before,
        is_cut_after=is_cut_after or has_no_end,
    )


def _edge(result: AgentResult | None, stream: str) -> int | None:
    """Where the limit of the output, or a full disk, has cut bytes out of the file."""
    gaps = [] if result is None else result.gaps.get(stream, [])
    return gaps[0][0] if gaps else None


def _cut_before(result: AgentResult, piece: Piece) -> int:
    """Bytes before the piece that are not in the file: the limit of the output has cut them out. What the
    spool gave up is in the file."""
    gaps = result.gaps.get(piece.stream, [])
    return sum(size for start, size in gaps if start + size <= piece.start)
