"""What may be asked of a task, as data. `decide.py` answers.

A runner's command carries the fence of its claim; without the right fence it changes nothing.
An operator's command carries who asks and why, and may carry the version that was seen.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.core.task import Failure, Status


class Complete(msgspec.Struct, frozen=True, gc=False):
    """The handler returned a value."""

    result_json: str | None
    duration_seconds: float = 0.0


class Fail(msgspec.Struct, frozen=True, gc=False):
    """The attempt failed. `final` spends no further attempts on it."""

    failure: Failure
    duration_seconds: float = 0.0
    final: bool = False


class Snooze(msgspec.Struct, frozen=True, gc=False):
    """Not ready yet: again later, no attempt spent."""

    delay_seconds: float
    reason: str = ""


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """The handler says that the work is no longer wanted."""

    reason: str


class Release(msgspec.Struct, frozen=True, gc=False):
    """The runner gives the task back unpunished, e.g. because it stops."""

    reason: str


class Report(msgspec.Struct, frozen=True, gc=False):
    """Progress or a checkpoint of a running task; no change of status."""

    progress_json: str | None = None
    checkpoint_json: str | None = None
    seen_version: int | None = None
    """The version that the runner knows: tells a repeat, whose first answer was lost, from a new report."""


RunnerCommand: TypeAlias = Complete | Fail | Snooze | Cancel | Release | Report


class Expire(msgspec.Struct, frozen=True, gc=False):
    """The lease ran out: the runner is presumed dead."""


class Settle(msgspec.Struct, frozen=True, gc=False):
    """A parent ended. `satisfied` lets the child go on; otherwise it fails with the parent."""

    parent_id: str
    parent_status: Status
    satisfied: bool
    message: str = ""


class Revive(msgspec.Struct, frozen=True, gc=False):
    """A parent was replayed, and no other dead one stands in the way: wait again."""

    parent_id: str
    waiting_on: int


class ChangeCause(msgspec.Struct, frozen=True, gc=False):
    """The parent that it failed with was replayed, but this one is dead too: it fails with this one now."""

    parent_id: str
    state: str
    """As in a sentence: 'failed', 'is gone'."""
    message: str


class Abort(msgspec.Struct, frozen=True, gc=False):
    """An operator wants it gone."""

    actor: str
    reason: str = ""


class Pause(msgspec.Struct, frozen=True, gc=False):
    """An operator stops it for now; the runner is told and loses its lease."""

    actor: str
    reason: str = ""


class Resume(msgspec.Struct, frozen=True, gc=False):
    """An operator lets a paused or stuck task go on, from the queue."""

    actor: str


class Replay(msgspec.Struct, frozen=True, gc=False):
    """A dead letter gets new attempts, perhaps with an edited payload, perhaps later."""

    actor: str
    delay_seconds: float = 0.0
    payload_json: str | None = None


class Edit(msgspec.Struct, frozen=True, gc=False):
    """Change what a waiting or dead task will work on."""

    actor: str
    payload_json: str
    merge: bool = False
    """The fields are put into the payload that is there; else they replace it."""


OperatorCommand: TypeAlias = Abort | Pause | Resume | Replay | Edit
Command: TypeAlias = RunnerCommand | Expire | Settle | Revive | ChangeCause | OperatorCommand


class Instruction(msgspec.Struct, frozen=True, gc=False):
    """One command for one task, with what the sender believes about it."""

    task_id: str
    command: Command
    fence: int | None = None
    version: int | None = None
