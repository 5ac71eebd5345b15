"""A blocked event loop: what a process reports of it, and how long its leases are kept.

A handler that blocks the event loop of its process stops the heartbeat too. A thread of the process then
keeps the leases (`engine/watchdog.py`), within the bounds here.
Promises: a lease is kept for no longer than `BLOCK_SECONDS_MAX` of one block, and never beyond the timeout of
its attempt plus one lease: a loop that never runs again loses its tasks like a process that has died.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core import codec
from holdfast.core.length import length
from holdfast.core.task import Task, timeout_of
from holdfast.core.text import one_line

BLOCK_SECONDS_MAX: Final = 300.0
"""How long the leases of a process are kept while its event loop is blocked."""
NAME_CHARS_MAX: Final = 200


class LoopBlock(msgspec.Struct, frozen=True, omit_defaults=True):
    """A block of an event loop, as its process reports it."""

    seconds: float
    task_id: str = ""
    """The task whose handler blocks. Empty: something else does."""
    task_type: str = ""

    def __str__(self) -> str:
        if not self.task_id:
            return f"its event loop has been blocked for {length(self.seconds)}"
        return (
            f"its event loop has been blocked for {length(self.seconds)} by the handler of task "
            f"{self.task_id} ({self.task_type})"
        )


class HeldRun(NamedTuple):
    """A run of the blocked process."""

    task: Task
    seconds: float
    """How long its handler has run. 0 before it starts and after it has ended."""


def is_kept(
    run: HeldRun, block: LoopBlock, *, lease_seconds: float, default_timeout: float | None
) -> bool:
    """Whether the lease of a run is renewed although the event loop of its process is blocked."""
    timeout = timeout_of(run.task.options, default_timeout)
    is_in_time = timeout is None or run.seconds <= timeout + lease_seconds
    return is_in_time and block.seconds <= BLOCK_SECONDS_MAX


def block_of(description: Mapping[str, Any]) -> LoopBlock | None:
    """The block that a node reports. None: its event loop runs, or its version does not report blocks."""
    return read_block(description.get("blocked"))


def reported_block(text: str) -> LoopBlock | None:
    """The block in a message of a worker. Empty text, and what is no report of a block: none."""
    try:
        return read_block(codec.loads(text)) if text else None
    except (ValueError, RecursionError):
        return None


def read_block(value: object) -> LoopBlock | None:
    """A block from a report. What is no report of a block is none."""
    try:
        block = msgspec.convert(value, LoopBlock)
    except msgspec.ValidationError:
        return None
    return LoopBlock(block.seconds, _short(block.task_id), _short(block.task_type))


def _short(text: str) -> str:
    return one_line(text)[:NAME_CHARS_MAX]
