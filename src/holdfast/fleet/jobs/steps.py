"""One step of a job's rollout, as the parts of a transaction.

Promises: ends are counted once: the step that counts them marks them. A host that a block refuses is never
admitted; one that a block holds leaves the window. Only a step takes a host out of the window and lets it in
again, under the lock of the job and of the task. A step costs what it counts, admits and ends, whatever the
number of hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core.command import Admit, Instruction, Pause
from holdfast.core.event import NewEvent
from holdfast.core.fleet.blocks.block import Refused
from holdfast.core.fleet.jobs.spec import read_spec
from holdfast.core.fleet.jobs.unstarted import REMOVED, halts, unstarted_end
from holdfast.core.fleet.model import (
    Execution,
    Host,
    Job,
    OutboxKind,
)
from holdfast.core.fleet.rollout import reducer
from holdfast.core.fleet.rollout.control import stopped
from holdfast.core.fleet.rollout.policy import HaltMode
from holdfast.core.fleet.rollout.state import (
    ROLLOUT_ACTOR,
    AskGate,
    HaltJob,
    HostOutcome,
    OpenWave,
    RolloutAction,
    RolloutState,
    WakeAt,
)
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.fleet.status import ExecutionKind
from holdfast.core.ids import Ids
from holdfast.core.task import Task
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.jobs import ending
from holdfast.fleet.jobs.corrections import tally
from holdfast.fleet.jobs.counts import outcomes_of
from holdfast.fleet.jobs.ending import Killed, Reason
from holdfast.fleet.jobs.job_rows import (
    GRANTED,
    counts_json,
    counts_of,
    executions,
    job_event,
    rollout_of,
    tasks_of,
    with_rollout,
    write_job,
)
from holdfast.fleet.jobs.outbox import announce
from holdfast.fleet.jobs.planned import Planned
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.jobs.verdicts import BlocksInForce, read_blocks
from holdfast.fleet.jobs.window import WindowMoves, admitted_by, among, in_window, look_seconds
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts import apply
from holdfast.store.scripts.work import Work

SEEN_MAX: Final = 1_000
"""Ends that one step counts."""
IDLE_LOOK_SECONDS: Final = 5.0
"""How soon a job with open hosts is looked at without an event."""
PROGRESS_SECONDS: Final = 1.0
"""The least time between two events about the progress of a job."""


Also = Callable[[Job], Script[Sequence[NewEvent]]]


class JobStep:
    """One step: what it found, and what it will write."""

    def __init__(
        self, job: Job, ids: Ids, rules: FleetRules, now: float, *, before: Job | None = None
    ) -> None:
        """`before`: the row, if the job was changed since it was read."""
        self.before = job if before is None else before
        self.job = job
        self.ids = ids
        self.rules = rules
        self.now = now
        self.rollout = rollout_of(job)
        self.spec = read_spec(job.spec_json)
        self.work = Work(now)
        self.events: list[NewEvent] = []
        self.reasons: dict[str, Reason] = {}
        self.killed = Killed({}, [])
        self.pushed: list[str] = []
        self.wake: list[str] = []
        self.counted: Counter[str] = Counter()
        self.seconds: list[tuple[str, float]] = []
        self.moves = WindowMoves()

    @property
    def is_halted(self) -> bool:
        halted = self.rollout.state.halt
        return halted is not None and halted.is_final

    @property
    def may_admit(self) -> bool:
        """Whether the job needs no approval or has one. Without it ends are counted, and no host starts."""
        return self.job.approval_state in GRANTED

    @property
    def is_expired(self) -> bool:
        return self.now >= self.job.not_after

    def run(
        self,
        dialect: Dialect,
        after: int = -1,
        *,
        most: int | None = None,
        also: Also | None = None,
    ) -> Script[Planned]:
        """Takes the step. `most`: how many executions it ends. `also` writes rows beside it, and returns
        events."""
        most = most or self.rules.plan_batch
        rows = yield call(own("ended_executions"), job_id=self.job.id, limit=SEEN_MAX)
        seen = sorted(executions(rows), key=lambda one: (one.ended_at, one.nth))
        tasks = yield from tasks_of(seen)
        outcomes = self._count(seen, outcomes_of(self.job, seen, tasks))
        yield from self._look()
        before = self.rollout.state
        state, actions = self._reduce(outcomes, before)
        admitted = yield from admitted_by(self.job.id, actions)
        self.rollout = replace(self.rollout, state=state)
        ended = yield from self._to_end(after, most)
        found = [execution for some in admitted.values() for execution in some]
        is_halting = halts(self.before, state.halt)
        halting = (yield from in_window(self.job.id)) if is_halting else []
        yield from ending.lock_executions(
            self.work, [*found, *ended, *halting], self.moves.touched(actions)
        )
        if self.moves.keep_begun(self.work.tasks):
            # There is less room than it seemed: what is admitted now is among what was found.
            state, actions = self._reduce(outcomes, before)
            admitted = among(admitted, actions)
        self.moves.let_in(actions)
        back = self.rollout.back - len(self.moves.returned)
        self.rollout = replace(self.rollout, state=state, back=back)
        yield from self._admit(admitted)
        self.reasons |= self.moves.end_gone(self.work, ROLLOUT_ACTOR)
        known = {execution.task_id for execution in ended}
        self._end([*ended, *(one for one in halting if one.task_id not in known)])
        is_full = len(ended) == most
        again = bool(self.reasons or is_full) or self._is_due_now(actions, seen)
        self._conclude(actions, again)
        write = partial(self._write, tasks, admitted, also)
        yield from apply.finish(self.work, self.ids.record(self.now), dialect, then=write)
        return Planned(
            self.job,
            self.wake,
            again,
            ended[-1].nth if is_full else -1,
            dict(self.counted),
            self.job.finished_at is not None,
            self.seconds,
        )

    # -- counting --------------------------------------------------------------------------------

    def _count(
        self, seen: Sequence[Execution], found: Sequence[tuple[HostOutcome, ExecutionKind]]
    ) -> list[HostOutcome]:
        """The ends that the reducer counts. They are counted by kind beside it."""
        for execution, (_, kind) in zip(seen, found, strict=True):
            self.counted[kind.value] += 1
            if execution.go_at is not None and execution.ended_at is not None:
                self.seconds.append((kind.value, max(0.0, execution.ended_at - execution.go_at)))
        kinds = Counter(counts_of(self.job)) + self.counted
        self.job = replace(self.job, counts_json=counts_json(kinds))
        self.rollout = replace(self.rollout, unsaid=self.rollout.unsaid or bool(found))
        return [outcome for outcome, _ in found]

    def _look(self) -> Script[None]:
        """Finds hosts that cannot run any more, and those that can again. Now and then, and in each step
        while hosts wait for their turn."""
        rollout, now = self.rollout, self.now
        if not rollout.state.open:
            self.rollout = replace(rollout, unknown=0, back=0)
            return
        if now - rollout.looked_at < look_seconds(self.job.hosts) and not rollout.back:
            return
        unknown = yield from self.moves.look(self.job, self.rules, now)
        back = len(self.moves.back)
        self.rollout = replace(rollout, unknown=unknown, back=back, looked_at=now)

    def _reduce(
        self, outcomes: Sequence[HostOutcome], before: RolloutState
    ) -> tuple[RolloutState, list[RolloutAction]]:
        """The step of the reducer."""
        rollout, state = self.rollout, before
        refusal = self.rules.secret_refusal(
            self.spec.secrets, self.job.project, self.spec.command_type
        )
        state = stopped(state, is_expired=self.is_expired, refusal=refusal)
        given = state.halt
        state, actions = reducer.step(
            rollout.policy,
            state,
            outcomes,
            rollout.unknown,
            self.now,
            leaving=tuple(self.moves.leaving),
            back=() if self.is_expired else tuple(self.moves.back),
            most=self.rules.plan_batch,
            may_admit=self.may_admit,
        )
        if given is not None and given is not before.halt:
            actions.insert(0, HaltJob(given))
        return state, actions

    # -- admitting -------------------------------------------------------------------------------

    def _admit(self, admitted: dict[int, list[Execution]]) -> Script[None]:
        """Queues the executions at their hosts. Those that a block refuses end; those that it holds leave
        the window."""
        wanted = [execution for found in admitted.values() for execution in found]
        back = {id: self.work.tasks[id].assigned_to for id in self.moves.returned}
        ids = sorted({id for id in back.values() if id is not None} | {e.host_id for e in wanted})
        if not ids:
            return
        blocks = yield from read_blocks(self.job.project, self.spec.command_type, self.now)
        hosts = yield from host_scripts.pinned(ids, with_facts=blocks.ask_facts)
        for task_id, host_id in back.items():
            self._wake(task_id, hosts.get(host_id or ""))
        if not wanted:
            return
        blocks.over(hosts.values())
        held = [e for e in wanted if self._admit_one(e, hosts.get(e.host_id), blocks)]
        self.moves.hold(held)
        state = reducer.left(self.rollout.policy, self.rollout.state, [e.nth for e in held])
        self.rollout = replace(self.rollout, state=state)

    def _wake(self, task_id: str, host: Host | None) -> None:
        if host is not None and self.rules.is_pushed(host.driver):
            self.pushed.append(task_id)
        elif host is not None:
            self.wake.append(host.id)

    def _admit_one(self, execution: Execution, host: Host | None, blocks: BlocksInForce) -> bool:
        """Returns whether a block holds it."""
        task_id = execution.task_id
        if host is None or host.is_gone_since(self.job.created_at):
            self._abort(execution, Reason(*REMOVED), ROLLOUT_ACTOR)
            return False
        verdict = blocks.verdict(host)
        if isinstance(verdict, Refused):
            actor, reason = blocks.judged(verdict)
            self._abort(execution, reason, actor)
            return False
        apply.carry_out(self.work, Instruction(task_id, Admit()))
        if verdict is None:
            self._wake(task_id, host)
            return False
        actor, reason = blocks.judged(verdict)
        apply.carry_out(self.work, Instruction(task_id, Pause(actor, reason.detail)))
        self.reasons[task_id] = reason
        return True

    def _abort(self, execution: Execution, reason: Reason, actor: str) -> None:
        self.reasons |= ending.end_unstarted(
            self.work, [execution], lambda _execution, _task: reason, actor=actor
        )

    # -- ending ----------------------------------------------------------------------------------

    def _to_end(self, after: int, most: int) -> Script[list[Execution]]:
        """The next executions of a job that starts no further ones."""
        if not self.is_halted and not self.is_expired:
            return []
        given = {"job_id": self.job.id, "after": after, "limit": most}
        return executions((yield call(own("unended_executions"), **given)))

    def _end(self, found: Sequence[Execution]) -> None:
        if not self.is_halted and not self.is_expired:
            return
        halted = self.rollout.state.halt
        actor = ROLLOUT_ACTOR if halted is None else halted.actor
        self.reasons |= ending.end_unstarted(self.work, found, self._why, actor=actor)
        if halted is not None and halted.mode is HaltMode.ABORT:
            self.killed = ending.kill_running(
                self.work, found, self.ids, actor=actor, reason=halted.reason
            )
            self.wake += [task.node for task, _, _ in self.killed.rows if task.node]
            self.reasons |= self.killed.reasons

    def _why(self, execution: Execution, task: Task) -> Reason:
        """By the job as this step leaves it."""
        end = unstarted_end(with_rollout(self.job, self.rollout), execution, task, self.now)
        assert end is not None, "the job is halted, or its time is over"
        return Reason(end.kind, end.detail)

    # -- the result ------------------------------------------------------------------------------

    def _is_due_now(self, actions: Sequence[RolloutAction], seen: Sequence[Execution]) -> bool:
        wakes = [action.at for action in actions if isinstance(action, WakeAt)]
        return len(seen) == SEEN_MAX or any(at <= self.now for at in wakes)

    def _conclude(self, actions: Sequence[RolloutAction], again: bool) -> None:
        """The job as the row will have it, and the events."""
        wakes = [self.now] if again else []
        for action in actions:
            match action:
                case OpenWave(wave=wave):
                    self._opened(wave)
                case AskGate(wave=wave):
                    self._say("job.wave", wave=wave, asked=True)
                case HaltJob(halt=given):
                    data = msgspec.to_builtins(given)
                    self._say("job.halted", **data)
                case WakeAt(at=at):
                    wakes.append(at)
                case _:
                    pass
        self._progress(wakes)
        self.job = with_rollout(self.job, self.rollout)
        state = self.rollout.state
        if state.finished is not None:
            self.job = replace(self.job, finished_at=self.now, due_at=None)
            self._say("job.finished", status=state.finished.value, **self._counts())
            return
        if not self.is_expired and self.may_admit:
            wakes.append(self.job.not_after)
        if state.open:
            soon = look_seconds(self.job.hosts) if state.away else IDLE_LOOK_SECONDS
            wakes.append(self.now + soon)
        self.job = replace(self.job, due_at=min(wakes, default=None))

    def _opened(self, wave: int) -> None:
        sizes = [opened.size for opened in self.rollout.state.waves]
        if wave == 1 and self.job.started_at is None:
            self.job = replace(self.job, started_at=self.now)
            self._say("job.planned", hosts=self.job.hosts)
        self._say("job.wave", wave=wave, size=sizes[wave - 1])

    def _progress(self, wakes: list[float]) -> None:
        """Tells of ends, at most once a second."""
        rollout = self.rollout
        if not rollout.unsaid or rollout.state.finished is not None:
            return
        due_at = rollout.said_at + PROGRESS_SECONDS
        if self.now < due_at:
            wakes.append(due_at)
            return
        self._say("job.progress", wave=rollout.state.wave, **self._counts())
        self.rollout = replace(rollout, said_at=self.now, unsaid=False)

    def _counts(self) -> dict[str, object]:
        kinds = counts_of(self.job)
        return {"hosts": self.job.hosts, "ended": sum(kinds.values()), "kinds": kinds}

    def _say(self, kind: str, **data: object) -> None:
        self.events.append(job_event(kind, self.job, self.now, **data))

    def _write(
        self,
        counted: Mapping[str, Task],
        admitted: dict[int, list[Execution]],
        also: Also | None,
        now: float,
    ) -> Script[Sequence[NewEvent]]:
        if counted:
            yield from tally(counted)
        for wave, found in admitted.items():
            ids = [execution.task_id for execution in found]
            yield call(own("admit_executions"), wave=wave, ids=ids)
        yield from self.moves.write()
        yield from ending.write_reasons(self.reasons)
        orders = yield from ending.write_kills(self.killed, now)
        yield from announce(OutboxKind.RUN_EXECUTION, self.pushed, now)
        self.job = yield from write_job(self.before, self.job)
        more = () if also is None else (yield from also(self.job))
        return [*self.events, *orders, *more]
