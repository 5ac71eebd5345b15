"""A report that the server refuses as invalid, in parts.

The agent would say the same again for ever, also after a restart, because its journal says the same. So it
says each part alone and gives up those that the server never takes.
Promises: a given up result becomes `unknown`, and if that is refused too, it counts as settled; output
becomes a gap. Output of a run goes before its result. Never: speaks with the server (`agent.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from holdfast.agent.message import Report
from holdfast.agent.run import result_of
from holdfast.agent.runs import Runs
from holdfast.core.fleet.agents.wire import AgentChunk

NOTHING: Final = Report()
UNKNOWN: Final = "unknown"
log = logging.getLogger("holdfast.agent")


def parts_of(report: Report) -> Iterator[Report]:
    """A report for each item."""
    for ref in report.accepts:
        yield Report(accepts=[ref])
    for run in report.running:
        yield Report(running=[run])
    for chunk in report.chunks:
        yield Report(chunks=[chunk])
    for result in report.results:
        yield Report(results=[result])
    for refusal in report.refuses:
        yield Report(refuses=[refusal])
    for ack in report.command_acks:
        yield Report(command_acks=[ack])


async def give_up(runs: Runs, part: Report, why: str) -> None:
    """The server refused this part alone: it is not said again."""
    log.error("the gateway refused a part of a report, which is given up: %s", why)
    for ref in part.accepts:
        await runs.withdraw(ref.token, ref.execution, "the gateway refused the accept")
    for running in part.running:
        runs.by_token[running.token].is_muted = True
    for chunk in part.chunks:
        _give_up_output(runs, chunk)
    for result in part.results:
        run = runs.by_token.get(result.token)
        reduced = None if run is None else result_of(run.offer, UNKNOWN, "its report was refused")
        if run is None or reduced == result:
            await runs.acked({result.id})
        else:
            run.result = reduced
    for refusal in part.refuses:
        await runs.acked({refusal.id})
    for ack in part.command_acks:
        runs.command_acks.pop(ack.id, None)


def _give_up_output(runs: Runs, chunk: AgentChunk) -> None:
    """Data becomes a gap. What is a gap already ends the output of the run."""
    if chunk.gap:
        runs.spool.forget(chunk.token)
    else:
        size = len(chunk.data_base64) * 3 // 4 - chunk.data_base64[-2:].count("=")
        runs.spool.gap(chunk.token, chunk.stream, chunk.start, size)
