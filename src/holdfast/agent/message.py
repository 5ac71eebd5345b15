"""The next sync of an agent, from the state of its runs.

Promises: results and statuses go before output. A result goes out with the last of the output of its run, or
after it, because the server takes no output of a run that has ended. The message stays within the bounds of
the protocol.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

import msgspec

from holdfast.agent.ports import Executor
from holdfast.agent.run import Run
from holdfast.agent.runs import Runs
from holdfast.agent.spool import Piece
from holdfast.core.fleet.agent_wire import (
    ITEMS_MAX,
    AgentChunk,
    AgentCommandAck,
    AgentResult,
    AgentRun,
    TokenRef,
)
from holdfast.core.fleet.journal import Step

OUTPUT_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of output in one sync, before base64."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent has to say."""

    accepts: list[TokenRef]
    refuses: list[AgentResult]
    running: list[AgentRun]
    chunks: list[AgentChunk]
    results: list[AgentResult]
    command_acks: list[AgentCommandAck]

    @property
    def is_urgent(self) -> bool:
        """Whether it must not wait for the server to answer a held poll."""
        return bool(
            self.accepts or self.refuses or self.chunks or self.results or self.command_acks
        )


async def compose(runs: Runs, executor: Executor, output_bytes_max: int) -> Report:
    """The report of this moment."""
    if not (runs.by_token or runs.refuses or runs.command_acks):
        return Report(accepts=[], refuses=[], running=[], chunks=[], results=[], command_acks=[])
    pieces = runs.spool.pieces(output_bytes_max, ITEMS_MAX)
    chunks = [await _chunk(runs, executor, piece) for piece in pieces]
    refuses = list(runs.refuses.values())
    results: list[AgentResult] = []
    running: list[AgentRun] = []
    for run in runs.by_token.values():
        sent = sum(piece.token == run.token for piece in pieces)
        if run.result is not None and runs.spool.left(run.token) <= sent:
            (refuses if run.is_later else results).append(run.result)
        elif run.step is not Step.ACCEPTED:
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


async def _chunk(runs: Runs, executor: Executor, piece: Piece) -> AgentChunk:
    run = runs.by_token[piece.token]
    data = "" if piece.is_gap else await _data(runs, executor, run, piece)
    is_missing = not piece.is_gap and not data
    return AgentChunk(
        execution=run.execution,
        token=piece.token,
        stream=piece.stream,
        start=piece.start,
        data_base64=data,
        gap=piece.size if piece.is_gap or is_missing else 0,
    )


async def _data(runs: Runs, executor: Executor, run: Run, piece: Piece) -> str:
    if run.inline:
        part = run.inline[piece.stream][piece.start : piece.start + piece.size]
        return b64encode(part).decode()
    cut = 0 if run.result is None else _cut_before(run.result, piece)
    return await executor.read(str(run.token), piece.stream, piece.start - cut, piece.size)


def _cut_before(result: AgentResult, piece: Piece) -> int:
    """Bytes before the piece that are not in the file: the limit of the output has cut them out. What the
    spool gave up is in the file."""
    gaps = result.gaps.get(piece.stream, [])
    return sum(size for start, size in gaps if start + size <= piece.start)
