"""Commands to a task, as data. `decide.py` rules on them.

A runner's command carries the fence of its claim. With another fence it changes nothing.
An operator's command carries the actor and a reason, and may carry the version that the operator read.
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
    """The attempt failed. With `final` there is no further attempt."""

    failure: Failure
    duration_seconds: float = 0.0
    final: bool = False


class Snooze(msgspec.Struct, frozen=True, gc=False):
    """Not ready yet: run again later. The attempt does not count."""

    delay_seconds: float
    reason: str = ""


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """The handler says that the work is not needed any more."""

    reason: str


class Release(msgspec.Struct, frozen=True, gc=False):
    """The runner gives the task back, e.g. because it stops. The attempt does not count."""

    reason: str


class Report(msgspec.Struct, frozen=True, gc=False):
    """Progress or a checkpoint of a running task; no change of status."""

    progress_json: str | None = None
    checkpoint_json: str | None = None
    seen_version: int | None = None
    """The version that the runner last read. It separates a repeat after a lost reply from a new report."""


RunnerCommand: TypeAlias = Complete | Fail | Snooze | Cancel | Release | Report


class Expire(msgspec.Struct, frozen=True, gc=False):
    """The lease ran out: the runner is presumed dead."""


class Settle(msgspec.Struct, frozen=True, gc=False):
    """A parent ended. With `satisfied` the child goes on, otherwise it fails."""

    parent_id: str
    parent_status: Status
    satisfied: bool
    message: str = ""


class Revive(msgspec.Struct, frozen=True, gc=False):
    """A parent was replayed and no other parent is dead: the child waits again."""

    parent_id: str
    waiting_on: int


class ChangeCause(msgspec.Struct, frozen=True, gc=False):
    """The parent that the child failed with was replayed, but this parent is dead too. The child stays
    failed, with this parent as the cause."""

    parent_id: str
    state: str
    """The verb of the failure message: 'failed', 'is gone'."""
    message: str


class Abort(msgspec.Struct, frozen=True, gc=False):
    """An operator ends the task."""

    actor: str
    reason: str = ""


class Pause(msgspec.Struct, frozen=True, gc=False):
    """An operator stops the task for now. The runner loses its lease and is notified."""

    actor: str
    reason: str = ""


class Resume(msgspec.Struct, frozen=True, gc=False):
    """An operator puts a paused or stuck task back into the queue."""

    actor: str


class Replay(msgspec.Struct, frozen=True, gc=False):
    """A dead letter gets new attempts, optionally with another payload and after a delay."""

    actor: str
    delay_seconds: float = 0.0
    payload_json: str | None = None


class Edit(msgspec.Struct, frozen=True, gc=False):
    """Change the payload of a waiting or dead task."""

    actor: str
    payload_json: str
    merge: bool = False
    """Whether the fields are merged into the payload. Otherwise they replace it."""


OperatorCommand: TypeAlias = Abort | Pause | Resume | Replay | Edit
Command: TypeAlias = RunnerCommand | Expire | Settle | Revive | ChangeCause | OperatorCommand


class Instruction(msgspec.Struct, frozen=True, gc=False):
    """One command for one task, with the fence and version that the sender expects."""

    task_id: str
    command: Command
    fence: int | None = None
    version: int | None = None
