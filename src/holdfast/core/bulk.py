"""Changes of many tasks as runs: what a run is, and how it goes on.

A run has the ids of its tasks, chosen when it was made, and changes them in order, batch by batch. A task
that another transaction holds is put aside, and tried again after the others.
Promises: `done + failed` tasks were judged, each once, since a batch and the figures of its run are one
transaction. A run that was stopped goes on where it was; what stops it by itself is counted from the last
resume on. Never: I/O, clocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, command as c
from holdfast.core.affinity import Affinity
from holdfast.core.bulk_undo import Undo, undo_of
from holdfast.core.check import check_number, check_whole, shown
from holdfast.core.intervention_args import command_of, intervention_request
from holdfast.core.submit import patch_json
from holdfast.core.task import Task
from holdfast.core.transition import HELD
from holdfast.errors import IllegalTransition, InvalidInput

PREFIX: Final = "op_"
TASKS_MAX: Final = 10_000
"""Tasks of one run."""
BATCH: Final = 100
"""Tasks that one transaction of a run changes."""
FAIL_LEAST: Final = 10
"""Tasks after which the share of refusals may stop a run."""
RATE_MOST: Final = 1e6
RATE_LEAST: Final = 0.001
"""The lowest rate: one task in 1,000 seconds."""
ASIDE_MAX: Final = 1_000
"""Tasks that are put aside at most. Then they are tried again before the others."""
HELD_SECONDS: Final = 1.0
"""The pause after a batch of which every task was held."""
FAIL_SHARE: Final = "too many refusals"
CANARY: Final = "a task of the canary was refused"


class BulkAction(StrEnum):
    REPLAY = "replay"
    DISCARD = "discard"
    ABORT = "abort"
    PAUSE = "pause"
    RESUME = "resume"
    REASSIGN = "reassign"

    @property
    def is_of_the_dead(self) -> bool:
        """Whether it is for dead letters only."""
        return self in (BulkAction.REPLAY, BulkAction.DISCARD)


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
    """Tasks at the beginning and after each resume. If one of them is refused, the run stops. A replay then
    waits until they have ended, and stops if one of them is a dead letter again."""
    stop_on_fail_share: float | None = None
    """The share of refused tasks above which the run stops. Of a replay, those that are dead letters again
    count too."""
    projects: tuple[str, ...] | None = None
    """The projects of who made the run. None: all."""
    request_id: str = ""
    cause: str = ""
    """What the tasks died of, if the query chose them by a fingerprint."""
    undo: Undo | None = None
    """What the run takes back."""

    def __post_init__(self) -> None:
        if self.rate_per_second is not None:
            check_number("rate_per_second", self.rate_per_second, least=RATE_LEAST, most=RATE_MOST)
        if self.canary is not None:
            check_whole("canary", self.canary, least=1, most=TASKS_MAX)
        if self.stop_on_fail_share is not None:
            check_number("stop_on_fail_share", self.stop_on_fail_share, most=1.0)
        self._check_args()
        self.command()

    def _check_args(self) -> None:
        if self.action is BulkAction.REASSIGN or not self.args:
            return
        if self.action is not BulkAction.REPLAY:
            raise InvalidInput(f"{self.action} takes no args: only replay and reassign do")
        if unknown := sorted(self.args.keys() - {"patch"}):
            raise InvalidInput(f"replay has no argument {shown(unknown[0])}: it has patch")

    @property
    def has_patch(self) -> bool:
        """Whether a replay changes the payloads of its tasks."""
        return self.action is BulkAction.REPLAY and self.args.get("patch") is not None

    @property
    def to_node(self) -> str | None:
        """The node of a reassignment."""
        return self.args.get("to_node") if self.action is BulkAction.REASSIGN else None

    @property
    def is_conditional(self) -> bool:
        """Whether `covers` is asked again before each task. The command by itself would also change a dead
        letter that was replayed meanwhile, or a task that others hold by now."""
        return self.action is BulkAction.DISCARD or self.undo is not None

    def covers(self, task: Task) -> bool:
        """Whether the run is about this task, as it is now."""
        if self.undo is not None:
            return self.undo.covers(task)
        return task.is_dead or not self.action.is_of_the_dead

    def command(self, affinity: Affinity | None = None, run_id: str = "") -> c.OperatorCommand:
        """The change of each task. `affinity`: of tasks that are resumed. `run_id`: the run, which the holds
        of a pause name."""
        match self.action:
            case BulkAction.REPLAY:
                patch = patch_json(self.args.get("patch"))
                return c.Replay(self.actor, reason=self.reason, patch_json=patch)
            case BulkAction.PAUSE:
                return c.Pause(self.actor, self.reason, run_id)
            case BulkAction.RESUME:
                return c.Resume(self.actor, self.reason, affinity)
            case BulkAction.ABORT | BulkAction.DISCARD:
                return c.Abort(self.actor, self.reason)
            case BulkAction.REASSIGN:
                request = intervention_request("REASSIGN", self.reason or "reassigned", self.args)
                return command_of(request, self.actor)


class BulkProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs to go on, beside its figures."""

    aside: tuple[str, ...] = ()
    """Tasks that were held, in the order of the next tries."""
    judged_before: int = 0
    failed_before: int = 0
    """The figures at the last resume, or at the beginning."""
    absent: int = 0
    """Tasks that were named and left out when the run was made. They count as refused."""
    token_id: str | None = None
    """The token that began or resumed the run. None: the run has none to lose."""
    watched: tuple[str, ...] = ()
    """Tasks of the canary of a replay that have not ended, as far as is known."""
    again: int = 0
    """Tasks of a replay that were dead letters again at the last look. See `bulk_again.py`."""
    looked_at: float = 0.0


START: Final = BulkProgress()


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
    """Why the run was stopped, or what it waits for."""
    created_at: float = 0.0
    updated_at: float = 0.0
    next_at: float = 0.0
    """When the next batch is due."""
    version: int = 1
    progress: BulkProgress = START

    @property
    def position(self) -> int:
        """Tasks that were judged."""
        return self.done + self.failed

    @property
    def judged(self) -> int:
        """Tasks that were judged since the last resume."""
        return self.position - self.progress.judged_before

    @property
    def refused(self) -> int:
        """Tasks that were refused since the last resume."""
        return self.failed - self.progress.failed_before

    @property
    def is_in_canary(self) -> bool:
        return self.spec.canary is not None and self.judged < self.spec.canary

    @property
    def is_watching(self) -> bool:
        """Whether the rest waits for the ends of the canary."""
        return bool(self.progress.watched) and not self.is_in_canary

    @property
    def batch(self) -> int:
        """How many tasks the next transaction changes."""
        size = BATCH
        if self.spec.rate_per_second is not None:
            size = min(size, max(1, int(self.spec.rate_per_second)))
        if self.spec.canary is not None and self.is_in_canary:
            size = min(size, self.spec.canary - self.judged)
        return size

    @property
    def is_retrying(self) -> bool:
        """Whether the next batch is of the tasks that were put aside."""
        count = len(self.progress.aside)
        return count >= ASIDE_MAX or self.position + count >= self.total

    def next_tasks(self, ids: Sequence[str], most: int = BATCH) -> Sequence[str]:
        """The tasks of the next batch. `ids`: all tasks of the run."""
        size = min(self.batch, most)
        if self.is_retrying:
            return self.progress.aside[:size]
        start = self.position - self.progress.absent + len(self.progress.aside)
        return ids[start : start + size]


def begun(
    run_id: str, spec: BulkSpec, count: int, absent: Mapping[str, int], token_id: str | None
) -> BulkRun:
    """A new run over this many tasks. `absent`: how many others were named, and why they are left out. They
    count as refused, but stop no run."""
    left = sum(absent.values())
    return BulkRun(
        id=run_id,
        spec=spec,
        state=BulkState.RUNNING if count else BulkState.DONE,
        total=count + left,
        failed=left,
        errors=dict(sorted(absent.items())),
        progress=BulkProgress(
            judged_before=left, failed_before=left, absent=left, token_id=token_id
        ),
    )


def advance(
    run: BulkRun, batch: Sequence[str], refusals: Sequence[str | None], now: float
) -> BulkRun:
    """The run after a batch. `refusals`: the code of each refusal, None for a task that was changed. A task
    that was held is put aside: it counts when it was judged."""
    judged = [code for code in refusals if code != HELD]
    codes = [code for code in judged if code is not None]
    errors = Counter(run.errors) + Counter(codes)
    aside = _aside(run, batch, refusals)
    watched = _watched(run, batch, refusals)
    after = replace(
        run,
        done=run.done + len(judged) - len(codes),
        failed=run.failed + len(codes),
        errors=dict(sorted(errors.items())),
        detail=_waiting(len(aside)),
        updated_at=now,
        next_at=now + _pause_seconds(run, len(judged)),
        version=run.version + 1,
        progress=replace(run.progress, aside=aside, watched=watched),
    )
    if after.position >= after.total:
        return replace(after, state=BulkState.DONE)
    if run.is_in_canary and after.refused:
        return replace(after, state=BulkState.STOPPED, detail=CANARY)
    share = run.spec.stop_on_fail_share
    if share is not None and after.judged >= FAIL_LEAST and after.refused > share * after.judged:
        return replace(after, state=BulkState.STOPPED, detail=FAIL_SHARE)
    return after


def _aside(run: BulkRun, batch: Sequence[str], refusals: Sequence[str | None]) -> tuple[str, ...]:
    """The tasks that are aside after a batch. One that is still held goes behind the others."""
    held = tuple(id for id, code in zip(batch, refusals, strict=True) if code == HELD)
    before = run.progress.aside
    return (before[len(batch) :] if run.is_retrying else before) + held


def _watched(run: BulkRun, batch: Sequence[str], refusals: Sequence[str | None]) -> tuple[str, ...]:
    """The tasks whose ends the rest of a replay waits for."""
    if run.spec.action is not BulkAction.REPLAY or not run.is_in_canary:
        return run.progress.watched
    changed = (id for id, code in zip(batch, refusals, strict=True) if code is None)
    return (*run.progress.watched, *changed)


def _waiting(count: int) -> str:
    if not count:
        return ""
    tasks = "1 task is" if count == 1 else f"{count} tasks are"
    return f"{tasks} held by another transaction: tried again after the others"


def _pause_seconds(run: BulkRun, judged: int) -> float:
    rate = run.spec.rate_per_second
    if not judged:
        return HELD_SECONDS if run.is_retrying else 0.0
    return 0.0 if rate is None else judged / rate


def stopped(run: BulkRun, reason: str, now: float) -> BulkRun:
    """The run that changes no further task. One that is stopped stays as it is."""
    if run.state is BulkState.STOPPED:
        return run
    if run.state is BulkState.DONE:
        raise IllegalTransition(f"operation {run.id} has ended: it cannot be stopped")
    return replace(
        run, state=BulkState.STOPPED, detail=reason, updated_at=now, version=run.version + 1
    )


def resumed(run: BulkRun, now: float, *, token_id: str | None = None) -> BulkRun:
    """The run that goes on with the tasks that are left, at its rate, for the token that resumes it. One that
    runs stays as it is."""
    if run.state is BulkState.RUNNING:
        return run
    if run.state is BulkState.DONE:
        raise IllegalTransition(f"operation {run.id} has ended: it cannot be resumed")
    progress = BulkProgress(
        aside=run.progress.aside,
        judged_before=run.position,
        failed_before=run.failed,
        absent=run.progress.absent,
        token_id=token_id,
    )
    return replace(
        run,
        state=BulkState.RUNNING,
        detail="",
        updated_at=now,
        next_at=max(run.next_at, now),
        version=run.version + 1,
        progress=progress,
    )


def undone(run: BulkRun, actor: str, reason: str, request_id: str) -> BulkSpec:
    """What takes a run back. IllegalTransition if it runs, or if its action has no undo."""
    if run.state is BulkState.RUNNING:
        raise IllegalTransition(f"operation {run.id} is running: stop it before you undo it")
    spec = run.spec
    undo = undo_of(run.id, spec.action, spec.actor, spec.reason)
    return BulkSpec(
        action=BulkAction.RESUME,
        actor=actor,
        reason=reason or f"undo of {run.id}",
        projects=spec.projects,
        request_id=request_id,
        undo=undo,
    )


def errors_json(run: BulkRun) -> str:
    return codec.dumps(run.errors)
