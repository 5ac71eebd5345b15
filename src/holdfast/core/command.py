"""Commands to a task, as data. `decide.py` rules on them.

A runner's command carries the fence of its claim. With another fence it changes nothing.
An operator's command carries the actor and a reason, and may carry the version that the operator read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from holdfast.core.affinity import Affinity
from holdfast.core.check import check_text, shown
from holdfast.core.loop_block import LoopBlock
from holdfast.core.seconds import Seconds, in_seconds
from holdfast.core.task import Failure, Status
from holdfast.errors import InvalidInput


class Complete(msgspec.Struct, frozen=True, gc=False):
    """The handler returned a value."""

    result_json: str | None
    duration_seconds: float = 0.0


class Fail(msgspec.Struct, frozen=True, gc=False):
    """The attempt failed. With `final` there is no further attempt."""

    failure: Failure
    duration_seconds: float = 0.0
    final: bool = False
    retry_after_seconds: float | None = None
    """The pause before the next attempt. None: by the policy of the task."""


class Snooze(msgspec.Struct, frozen=True, gc=False):
    """Not ready yet: run again later. The attempt does not count."""

    delay_seconds: float
    """In seconds. A handler may give a timedelta."""
    reason: str = ""

    if TYPE_CHECKING:

        def __init__(self, delay_seconds: Seconds, reason: str = "") -> None: ...

    def __post_init__(self) -> None:
        seconds = in_seconds(self.delay_seconds)
        if seconds is not self.delay_seconds:
            force_setattr(self, "delay_seconds", seconds)


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """The handler says that the work is not needed any more."""

    reason: str


class Release(msgspec.Struct, frozen=True, gc=False):
    """The runner gives the task back, e.g. because it stops. The attempt does not count."""

    reason: str


AUTO: Final = "auto"
"""The type of a checkpoint without a name, as workers send it: only the latest value is kept."""
OWN_POINTS: Final = frozenset({AUTO, "decision"})
"""Types of checkpoints that runners do not give."""
POINT_PREFIX: Final = "ckp_"
POINT_CHARS_MAX: Final = 200


class NamedPoint(msgspec.Struct, frozen=True, gc=False):
    """What a named checkpoint has beside its value."""

    id: str
    type: str
    note: str = ""


def named_point(id: str, type: str, note: str) -> NamedPoint:
    """A named checkpoint, checked."""
    if not check_text("type", type, most=POINT_CHARS_MAX).strip() or type in OWN_POINTS:
        raise InvalidInput(f"type {shown(type)} is not a name of checkpoints: use another")
    return NamedPoint(id, type, check_text("note", note))


class OutputPart(msgspec.Struct, frozen=True, gc=False):
    """Bytes of a stream of a run."""

    stream: str
    start: int
    """The offset of the first byte. A part that was stored before is recognised by it."""
    data: bytes


class Report(msgspec.Struct, frozen=True, gc=False):
    """Progress, a checkpoint, output or totals of a running task. The version stays: an operator who read the
    task may still change it. A report that equals what the row has is a repeat."""

    progress_json: str | None = None
    checkpoint_json: str | None = None
    merge: bool = False
    """Whether the fields of `progress_json` are merged into the progress. Otherwise they replace it."""
    is_running: bool = False
    """The runner says that it runs: a stuck task runs again, also without progress."""
    point: NamedPoint | None = None
    """The name of the checkpoint, which has a row. None: only the latest value is kept."""
    output: OutputPart | None = None
    """Bytes for a stream of the run. They and totals leave the task as it is: the store adds other rows."""
    totals: dict[str, float] = {}
    """Totals of the run by name. They only rise."""


class GetStuck(msgspec.Struct, frozen=True, gc=False):
    """The runner says that it makes no progress. It keeps its claim."""

    reason: str = ""


class Suspend(msgspec.Struct, frozen=True, gc=False):
    """The runner pauses its task: for a decision, or by its own will. The attempt does not count."""

    actor: str
    reason: str = ""
    decision_id: str | None = None
    """The decision that the task waits for. None: a hold, which the same actor or an operator lifts."""


RunnerCommand: TypeAlias = Complete | Fail | Snooze | Cancel | Release | Report | GetStuck | Suspend


class Expire(msgspec.Struct, frozen=True, gc=False):
    """The lease ran out: the runner is presumed dead, unless it reports that its event loop is blocked."""

    blocks: dict[str, LoopBlock] = {}
    """The live nodes whose event loops are blocked."""


class Admit(msgspec.Struct, frozen=True, gc=False):
    """What a blocked task waited for, beside other tasks, has come: its job lets it start."""


class Stall(msgspec.Struct, frozen=True, gc=False):
    """The runner made no progress until its deadline. It keeps its claim."""


class Unassign(msgspec.Struct, frozen=True, gc=False):
    """The assignment to a node has ended, and the node did not claim the task: any node may."""

    is_gone: bool = False
    """The node is gone or late: a preference for it ends before its time."""


class Wake(msgspec.Struct, frozen=True, gc=False):
    """The decision that a paused task waited for was made, expired or was cancelled."""

    decision_id: str
    actor: str
    outcome: str
    """`decided`, `expired` or `cancelled`."""
    affinity: Affinity | None = None
    """Prefers the node that asked."""


class Settle(msgspec.Struct, frozen=True, gc=False):
    """A parent ended. With `satisfied` the child goes on, otherwise it fails."""

    parent_id: str
    parent_status: Status
    satisfied: bool
    message: str = ""
    fingerprint: str = ""
    """The group of the parent's failure. Empty: it has none, e.g. because it was aborted."""


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
    fingerprint: str = ""
    """As of `Settle`."""


class Abort(msgspec.Struct, frozen=True, gc=False):
    """An operator ends the task."""

    actor: str
    reason: str = ""


class Pause(msgspec.Struct, frozen=True, gc=False):
    """An operator stops the task for now. The runner loses its lease and is notified."""

    actor: str
    reason: str = ""
    run_id: str = ""
    """The bulk run that pauses it. The hold names it, so that an undo of the run knows its own."""


class Resume(msgspec.Struct, frozen=True, gc=False):
    """An operator lifts a hold, or puts a paused or stuck task back into the queue."""

    actor: str
    reason: str = ""
    affinity: Affinity | None = None
    """Prefers the node that ran a paused task."""


class RetryTask(msgspec.Struct, frozen=True, gc=False):
    """An operator makes a task due: a waiting one, a stuck one, or a dead letter with new attempts."""

    actor: str
    reason: str = ""
    delay_seconds: float = 0.0
    payload_json: str | None = None
    """None: the payload stays."""


class Reassign(msgspec.Struct, frozen=True, gc=False):
    """An operator reserves the task for a node. A runner loses it."""

    actor: str
    to: str
    fallback_seconds: float | None = None
    """After this time any node may claim it. None: only this node."""
    reason: str = ""


class Unlock(msgspec.Struct, frozen=True, gc=False):
    """An operator takes the task from its runner and returns it to the queue. The attempt does not count."""

    actor: str
    reason: str = ""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """A late result that an operator adopts: the fence under which it was produced, and the value."""

    fence: int
    result_json: str | None


class Force(msgspec.Struct, frozen=True, gc=False):
    """An operator sets the status, along legal steps. Only a claim starts a task."""

    actor: str
    status: Status
    reason: str = ""
    result_json: str | None = None
    evidence: Evidence | None = None


class Replay(msgspec.Struct, frozen=True, gc=False):
    """A dead letter gets new attempts, optionally with another payload and after a delay."""

    actor: str
    delay_seconds: float = 0.0
    payload_json: str | None = None
    reason: str = ""
    patch_json: str | None = None
    """A merge patch of its payload: an object, see `merge_patch`."""


class Edit(msgspec.Struct, frozen=True, gc=False):
    """Change the payload of a waiting or dead task, or the metadata or tags of one that has not ended."""

    actor: str
    payload_json: str | None = None
    """None: the payload stays."""
    merge: bool = False
    """Whether the fields are merged into the payload. Otherwise they replace it."""
    metadata_json: str | None = None
    """The whole new metadata. None: it stays."""
    tags: tuple[str, ...] | None = None
    """All new tags, sorted. None: they stay."""
    reason: str = ""


OperatorCommand: TypeAlias = (
    Abort | Pause | Resume | RetryTask | Replay | Edit | Reassign | Unlock | Force
)
UpkeepCommand: TypeAlias = Expire | Admit | Stall | Unassign | Wake | Settle | Revive | ChangeCause
Command: TypeAlias = RunnerCommand | UpkeepCommand | OperatorCommand


class Instruction(msgspec.Struct, frozen=True, gc=False):
    """One command for one task, with the fence and version that the sender expects."""

    task_id: str
    command: Command
    fence: int | None = None
    version: int | None = None
    node: str | None = None
    """The remote node that sends it. A result that comes too late names it."""
