"""Why a worker does not hold a run any more, in words for its log.

Never: text of a gateway as it is. A reason of a newer gateway is shown on one printable line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from holdfast.core.task import RunId
from holdfast.core.text import one_line
from holdfast.core.worker.wire import CommandFrame, LostRun

Losses: TypeAlias = Mapping[RunId, str]
"""Runs that a worker does not hold any more, and why."""

STARTS_OVER: Final = "the gateways do not know this start of the worker any more"
NO_GATEWAY: Final = "no gateway accepts this worker any more"
NOT_RENEWED: Final = "its lease could not be renewed in time"
_UNKNOWN: Final = "another node has it, or its lease has ended"
_WORDS: Final = {
    "paused": "the task is paused",
    "aborted": "the task is aborted",
    "released": "the task was given back to its queue",
    "completed": "the task is completed",
    "failed": "the task has failed",
    "reclaimed": "another run has the task",
    "gone": "the task is gone from the store",
    "expired": "its lease has ended",
}
"""By the reasons of `sync.worker.worker_sync.loss_reason`."""


def lost_runs(lost: Iterable[LostRun]) -> Losses:
    """The runs that a gateway has named."""
    return {RunId(run.task_id, run.fence): _words(run.reason) for run in lost}


def by_command(command: CommandFrame) -> str:
    """Why a run ends that an operator's command takes away."""
    who = one_line(command.requested_by) or "an operator"
    said = one_line(command.reason)
    return f"{who} has asked for {one_line(command.kind)}{f' ({said})' if said else ''}"


def _words(reason: str) -> str:
    return _WORDS.get(reason) or one_line(reason) or _UNKNOWN
