"""Changes of many tasks as runs: what a run is, and how it goes on.

A run has the ids of its tasks, chosen when it was made, and changes them in order, batch by batch.
Promises: `done + failed` tasks were judged, each once, since a batch and the figures of its run are one
transaction. A run that was stopped goes on where it was. Never: I/O, clocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, command as c
from holdfast.core.affinity import Affinity
from holdfast.core.check import check_number, check_positive, check_whole
from holdfast.core.intervention_args import command_of, intervention_request
from holdfast.errors import IllegalTransition, InvalidInput

PREFIX: Final = "op_"
TASKS_MAX: Final = 10_000
"""Tasks of one run."""
BATCH: Final = 100
"""Tasks that one transaction of a run changes."""
FAIL_LEAST: Final = 10
"""Tasks after which the share of refusals may stop a run."""
FAIL_SHARE: Final = "too many refusals"
CANARY: Final = "a task of the canary was refused"


class BulkAction(StrEnum):
    REPLAY = "replay"
    DISCARD = "discard"
    ABORT = "abort"
    PAUSE = "pause"
    RESUME = "resume"
    REASSIGN = "reassign"


class BulkState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"


class BulkSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does."""

    action: BulkAction
    actor: str
    reason: str = ""
    q: str | None = None
    args: dict[str, Any] = {}
    rate_per_second: float | None = None
    canary: int | None = None
    """Tasks of the first batch. If one of them is refused, the run stops."""
    stop_on_fail_share: float | None = None
    """The share of refused tasks above which the run stops."""
    projects: tuple[str, ...] | None = None
    """The projects of who made the run. None: all."""
    request_id: str = ""

    def __post_init__(self) -> None:
        if self.rate_per_second is not None:
            check_positive("rate_per_second", self.rate_per_second, most=1e6)
        if self.canary is not None:
            check_whole("canary", self.canary, least=1, most=TASKS_MAX)
        if self.stop_on_fail_share is not None:
            check_number("stop_on_fail_share", self.stop_on_fail_share, most=1.0)
        if self.action is not BulkAction.REASSIGN and self.args:
            raise InvalidInput(f"{self.action} takes no args: only reassign does")
        self.command()

    def command(self, affinity: Affinity | None = None) -> c.OperatorCommand:
        """The change of each task. `affinity`: of tasks that are resumed."""
        match self.action:
            case BulkAction.REPLAY:
                return c.Replay(self.actor, reason=self.reason)
            case BulkAction.PAUSE:
                return c.Pause(self.actor, self.reason)
            case BulkAction.RESUME:
                return c.Resume(self.actor, self.reason, affinity)
            case BulkAction.ABORT | BulkAction.DISCARD:
                return c.Abort(self.actor, self.reason)
            case BulkAction.REASSIGN:
                request = intervention_request("REASSIGN", self.reason or "reassigned", self.args)
                return command_of(request, self.actor)


class BulkRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, without the ids of its tasks."""

    id: str
    spec: BulkSpec
    state: BulkState
    total: int
    done: int = 0
    failed: int = 0
    errors: dict[str, int] = {}
    """How many tasks were refused, by the code of the refusal."""
    detail: str = ""
    """Why the run was stopped."""
    created_at: float = 0.0
    updated_at: float = 0.0
    version: int = 1

    @property
    def position(self) -> int:
        """Tasks that were judged."""
        return self.done + self.failed

    @property
    def batch(self) -> int:
        """How many tasks the next transaction changes."""
        size = BATCH
        if self.spec.rate_per_second is not None:
            size = min(size, max(1, int(self.spec.rate_per_second)))
        if self.spec.canary is not None and self.position < self.spec.canary:
            size = min(size, self.spec.canary - self.position)
        return size

    def pause_seconds(self, judged: int) -> float:
        """The pause after a batch."""
        rate = self.spec.rate_per_second
        return 0.0 if rate is None else judged / rate


def advance(run: BulkRun, refusals: Sequence[str | None], now: float) -> BulkRun:
    """The run after a batch. `refusals`: the code of each refusal, None for a task that was changed."""
    codes = [code for code in refusals if code is not None]
    errors = Counter(run.errors) + Counter(codes)
    after = replace(
        run,
        done=run.done + len(refusals) - len(codes),
        failed=run.failed + len(codes),
        errors=dict(sorted(errors.items())),
        updated_at=now,
        version=run.version + 1,
    )
    if after.position >= after.total:
        return replace(after, state=BulkState.DONE)
    spec = run.spec
    if spec.canary is not None and run.position < spec.canary and after.failed:
        return replace(after, state=BulkState.STOPPED, detail=CANARY)
    share = spec.stop_on_fail_share
    if share is not None and after.position >= FAIL_LEAST and after.failed > share * after.position:
        return replace(after, state=BulkState.STOPPED, detail=FAIL_SHARE)
    return after


def stopped(run: BulkRun, reason: str, now: float) -> BulkRun:
    """The run that changes no further task. One that is stopped stays as it is."""
    if run.state is BulkState.STOPPED:
        return run
    if run.state is BulkState.DONE:
        raise IllegalTransition(f"operation {run.id} has ended: it cannot be stopped")
    return replace(
        run, state=BulkState.STOPPED, detail=reason, updated_at=now, version=run.version + 1
    )


def resumed(run: BulkRun, now: float) -> BulkRun:
    """The run that goes on with the tasks that are left. One that runs stays as it is."""
    if run.state is BulkState.RUNNING:
        return run
    if run.state is BulkState.DONE:
        raise IllegalTransition(f"operation {run.id} has ended: it cannot be resumed")
    return replace(run, state=BulkState.RUNNING, detail="", updated_at=now, version=run.version + 1)


def errors_json(run: BulkRun) -> str:
    return codec.dumps(run.errors)
