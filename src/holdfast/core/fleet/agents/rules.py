"""What the server does with a sync of an agent.

    offer -> accept -> go -> started -> output -> result -> ack

Promises: an agent starts nothing without a go, and one token gets one go; a token that got none has provably
not started, so its task goes back to the queue and spends nothing. A result counts once: under the token that
holds the slot and the task it ends the task, otherwise it is kept as evidence beside the status. A result is
acknowledged when it has been taken, and only then. Lost, repeated and reordered syncs change nothing of this.
A slot is free only when its token provably does not run. Another journal proves nothing about earlier tokens;
another boot of the host ends their processes.
Never: I/O, clocks; offers (`offer_rules.py`).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from holdfast.core import decide, lease, runner_rules
from holdfast.core.command import Complete, Fail, Instruction, Release, RunnerCommand, Snooze
from holdfast.core.fleet.agents.facts import (
    AgentStanding,
    EndedRun,
    PlacedChunk,
    Run,
    SyncEffects,
    taken_with,
)
from holdfast.core.fleet.agents.offer_rules import (
    BlockVerdict,
    may_be_offered,
    reported,
    why_not,
)
from holdfast.core.fleet.agents.proofs import has_no_go, is_of_copy, proves_end, proves_no_start
from holdfast.core.fleet.agents.result_rules import NO_START, command_of, late_json, with_outcome
from holdfast.core.fleet.agents.run_output import StreamState, awaits_more, read_states
from holdfast.core.fleet.agents.wire import (
    AgentChunk,
    AgentCommand,
    AgentResult,
    AgentRun,
    AgentSync,
    AgentWithdrawal,
    TokenRef,
)
from holdfast.core.fleet.model import Execution
from holdfast.core.start_once import BEFORE_GO, RunPhase, phase_of
from holdfast.core.task import RunId, Status
from holdfast.core.transition import Ruling, Transition, new_event, with_versions

ABORT: Final = "ABORT"
ABORT_ID: Final = "abort:"
"""How the id of a command begins that no intervention has issued. The claim of the run follows."""
KILLED: Final = "cancelled_killed"
NOT_STARTED: Final = "cancelled_before_start"
_CONFIRMED: Final = frozenset({None, "cancelled_unconfirmed", NOT_STARTED})
_CONTRADICTED: Final = "the journal of the host does not know what became of it"
_OF_COPY: Final = (
    "the agent does not know what it has accepted: two hosts may have copies of one state folder"
)


def judge(
    standing: AgentStanding,
    message: AgentSync,
    runs: Mapping[str, Run],
    now: float,
    blocked_by: BlockVerdict = lambda run: None,
) -> SyncEffects:
    """The effects of a sync of an agent that may speak. `runs`: what the message names, and what holds the
    slot, as far as it exists. `blocked_by`: about runs that are not known to have started."""
    judged = _Judge(standing, message, runs, now, blocked_by)
    for ref in message.accepts:
        judged.accept(ref)
    for run in message.running:
        judged.running(run)
    for chunk in message.chunks:
        judged.chunk(chunk)
    for result in message.results:
        judged.result(result, is_later=False)
    for result in message.refuses:
        judged.result(result, is_later=True)
    judged.look_at_slot()
    return judged.effects


class _Judge:
    """One sync."""

    def __init__(
        self,
        standing: AgentStanding,
        message: AgentSync,
        runs: Mapping[str, Run],
        now: float,
        blocked_by: BlockVerdict,
    ) -> None:
        self._standing, self._blocked_by = standing, blocked_by
        self._agent = standing.agent
        self._message = message
        self._now = now
        own = {id: run for id, run in runs.items() if run.execution.host_id == self._agent.host_id}
        self._runs = own
        self._foreign = runs.keys() - own.keys()
        """Executions of other hosts: what is said of them is not taken."""
        self.effects = SyncEffects(standing.slot)

    # -- what the agent says ---------------------------------------------------------------------------

    def accept(self, ref: TokenRef) -> None:
        """The agent has written the offer into its journal, and asks for the go."""
        run = self._current(ref.execution, ref.token)
        if run is None:
            self._withdraw(ref, "the offer does not count any more")
        elif phase_of(run.task) not in BEFORE_GO:
            if run.task.status is Status.STUCK:
                self._going_on(run, RunPhase.GO)
            self._go(ref)
        elif (reason := self._why_not(run)) is not None:
            self._order(run, Release(reason))
            self._withdraw(ref, reason)
        else:
            self._move(run, reported(run.task, RunPhase.GO, self._now))
            self._write(replace(self._runs[ref.execution].execution, go_at=self._now))
            self._go(ref)

    def running(self, said: AgentRun) -> None:
        """The agent has the run. Its lease is renewed while its token counts."""
        ref = TokenRef(said.execution, said.token)
        run = self._current(said.execution, said.token)
        if run is None:
            self._not_current(said)
            return
        if said.phase == RunPhase.ACCEPTED:
            self.accept(ref)
        else:
            self._going_on(run, said.phase)
        if self._current(said.execution, said.token) is not None:
            self.effects.renewals.append(RunId(run.task.id, run.task.fence))

    def _going_on(self, run: Run, phase: str) -> None:
        """A run that has its go. A stuck task runs again."""
        is_started = RunPhase.STARTED in (phase, phase_of(run.task))
        if run.task.status is Status.STUCK:
            self._reconciled(run)
        self._move(
            run, reported(run.task, RunPhase.STARTED if is_started else RunPhase.GO, self._now)
        )
        execution = self._runs[run.task.id].execution
        if execution.go_at is None:
            self._write(replace(execution, go_at=self._now))

    def _not_current(self, said: AgentRun) -> None:
        """A run whose token does not count. Without a go it is withdrawn. A cancelled command, or one
        whose slot was taken away, is stopped; one that was given up for lost may end by itself."""
        run = self._runs.get(said.execution)
        if run is None:
            return
        if said.phase == RunPhase.ACCEPTED:
            self._withdraw(
                TokenRef(said.execution, said.token), "the offer does not count any more"
            )
        elif run.task.status is Status.ABORTED or self._standing.slot.fence != said.token:
            self.effects.commands.append(
                AgentCommand(
                    abort_id(said.execution, said.token), ABORT, said.execution, said.token
                )
            )

    def chunk(self, chunk: AgentChunk) -> None:
        """Output is added to the run of its token, also after its task has ended, until all of it came."""
        if chunk.execution in self._foreign:
            return
        run = self._runs.get(chunk.execution)
        data = b64decode(chunk.data_base64)
        fence = None if run is None else run.execution.fence
        if run is None or fence is None or not self._is_open(run, chunk.token):
            end = chunk.start + (chunk.gap or len(data))
            self.effects.log_next[f"{chunk.execution}/{chunk.stream}"] = end
            return
        self.effects.chunks.append(
            PlacedChunk(run.task.id, fence, chunk.stream, chunk.start, data, chunk.gap)
        )
        if chunk.token in run.taken and not any(
            e.task_id == run.task.id for e in self.effects.ended
        ):
            sizes = {name: state.bytes for name, state in self._states(run).items()}
            last = AgentResult(
                id="", execution=run.task.id, token=chunk.token, state="exited", sizes=sizes
            )
            self.effects.ended.append(EndedRun(run.task.id, fence, last))

    def _is_open(self, run: Run, token: int) -> bool:
        if run.execution.token != token:
            return False
        return token not in run.taken or awaits_more(run.execution.output_json)

    def _states(self, run: Run) -> dict[str, StreamState]:
        return read_states(run.execution.output_json)

    def result(self, result: AgentResult, *, is_later: bool) -> None:
        """The end of a run. It is acknowledged in any case: what it proves has been taken."""
        if result.execution in self._foreign:
            return
        self.effects.acks.append(result.id)
        run = self._runs.get(result.execution)
        if run is None or result.token in run.taken:
            return
        if result.state in NO_START and not proves_no_start(self._agent, run, result):
            reason = _OF_COPY if is_of_copy(run, result) else _CONTRADICTED
            result = replace(result, state="unknown", reason=reason)
        is_proof = proves_end(self._agent, run, result)
        if not is_proof and not run.holds(result.token):
            return
        if is_proof:
            taken = taken_with(run.execution, result.token)
            run = self._write(replace(run.execution, taken_json=taken))
        if self._current(result.execution, result.token) is not None:
            self._end(run, result, is_later=is_later)
        else:
            self._keep(run, result)
        if run.execution.token == result.token and run.execution.fence is not None:
            self.effects.ended.append(EndedRun(run.task.id, run.execution.fence, result))

    def _end(self, run: Run, result: AgentResult, *, is_later: bool) -> None:
        """The result of the run that holds the task."""
        if run.task.status is Status.STUCK:
            self._reconciled(run)
        command = command_of(run, result, is_later=is_later)
        ruling = self._order(run, command)
        execution = self._runs[run.task.id].execution
        has_ended = isinstance(ruling, Transition) and decide.ended(ruling)
        if isinstance(command, Release | Snooze):
            execution = replace(execution, go_at=None)
        elif has_ended:
            ended = self._runs[run.task.id].task
            execution = with_outcome(execution, result, ended.failure)
        self._write(execution)

    def _keep(self, run: Run, result: AgentResult) -> None:
        """A result that came after the run had lost its task: evidence, or the proof that a cancelled command
        does not run."""
        execution, task = run.execution, run.task
        if task.status is Status.ABORTED and execution.token == result.token:
            self.effects.confirmed.append(RunId(task.id, execution.fence or 0))
            if execution.outcome in _CONFIRMED:
                has_run = result.state not in NO_START or task.failure is not None
                outcome = KILLED if has_run else NOT_STARTED
                execution = replace(execution, outcome=outcome)
            execution = replace(execution, exit_code=result.exit_code, signal=result.signal)
        if result.state in NO_START and execution.go_at is None:
            self._write(execution)
            return
        self.effects.late += 1
        self._write(replace(execution, late_json=late_json(result, self._now)))
        command = command_of(run, result, is_later=False)
        if isinstance(command, Complete | Fail):
            fence = execution.fence if execution.token == result.token else None
            instruction = Instruction(task.id, command, fence=fence, node=self._agent.host_id)
            late = with_versions(runner_rules.stale(task, instruction, self._now))
            self.effects.events += late.events

    # -- the slot --------------------------------------------------------------------------------------

    def look_at_slot(self) -> None:
        """Frees the slot if its token provably does not run. Otherwise repeats the offer, or asks."""
        slot = self.effects.slot
        execution_id = slot.claim_id
        if execution_id is not None:
            run = self._runs.get(execution_id)
            is_listed = self._is_listed(execution_id, slot.fence)
            if self._is_free(run, slot.fence, is_listed=is_listed):
                self.effects.slot = lease.released(slot)
            elif run is not None and not is_listed and self._is_newest:
                self._ask_about(run, slot.fence)
        slot = self.effects.slot
        if slot.claim_id is None and slot.fence < self._message.last_token:
            self.effects.slot = replace(slot, fence=self._message.last_token)
        standing, message = self._standing, self._message
        self.effects.may_offer = (
            self._is_newest
            and message.capacity > 0
            and not message.running
            and may_be_offered(standing.node_state, standing.host_state, self.effects.slot)
        )

    @property
    def _is_newest(self) -> bool:
        return self._message.seq >= self._agent.seq

    def _is_listed(self, execution_id: str, token: int) -> bool:
        ref = TokenRef(execution_id, token)
        if ref in self._message.accepts:
            return True
        return any(
            (run.execution, run.token) == (execution_id, token) for run in self._message.running
        )

    def _is_free(self, run: Run | None, token: int, *, is_listed: bool) -> bool:
        if run is None:
            return not is_listed  # The execution is gone, and the agent does not know it.
        if token in run.taken:
            return True
        return not run.holds(token) and run.execution.go_at is None

    def _ask_about(self, run: Run, token: int) -> None:
        """The agent does not mention the token that has its slot. An offer may have been lost."""
        knows = token > self._agent.journal_token
        has_start = phase_of(run.task) is RunPhase.STARTED or not run.holds(token)
        # A token of an earlier boot never starts in this one, so the boot proves that it does not run.
        is_past = token <= self._agent.boot_token
        # Of a store that was restored: the agent ignores tokens that its journal is beyond.
        is_old = token <= self._message.last_token
        if has_no_go(run, token) and (is_past or is_old or not knows):
            why = (
                "the host knows newer tokens" if is_old else "the agent that got the offer is gone"
            )
            self._order(run, Release(why))
            self.effects.slot = lease.released(self.effects.slot)
        elif (
            knows
            and not (is_past or is_old)
            and not has_start
            and run.task.status is Status.RUNNING
            and self._may_repeat(run)
        ):
            self.effects.repeat = run
        elif knows or is_past:
            self.effects.probe.append(TokenRef(run.task.id, token))

    def _may_repeat(self, run: Run) -> bool:
        """An offer that got its go after an accept was received. One that has its go is made again only if
        its command may still start: else the agent says that it has not started it."""
        if run.execution.go_at is None:
            return True
        return run.job.command.is_idempotent and self._why_not(run) is None

    def _why_not(self, run: Run) -> str | None:
        return why_not(self._standing, run, self._now, self._blocked_by)

    # -- changes ---------------------------------------------------------------------------------------

    def _current(self, execution: str, token: int) -> Run | None:
        """The run, if its token holds the slot and the task."""
        run, slot = self._runs.get(execution), self._standing.slot
        if run is None or slot.fence != token or slot.claim_id != execution:
            return None
        return run if run.holds(token) else None

    def _order(self, run: Run, command: RunnerCommand) -> Ruling:
        instruction = Instruction(
            run.task.id, command, fence=run.task.fence, node=self._agent.host_id
        )
        return self._move(run, decide.decide(run.task, instruction, self._now))

    def _move(self, run: Run, ruling: Ruling) -> Ruling:
        self.effects.rulings.append(ruling)
        if isinstance(ruling, Transition):
            self._runs[run.task.id] = replace(self._runs[run.task.id], task=ruling.after)
        return ruling

    def _write(self, execution: Execution) -> Run:
        run = replace(self._runs[execution.task_id], execution=execution)
        self._runs[execution.task_id] = run
        self.effects.executions[execution.task_id] = execution
        return run

    def _go(self, ref: TokenRef) -> None:
        if ref not in self.effects.go:
            self.effects.go.append(ref)

    def _withdraw(self, ref: TokenRef, reason: str) -> None:
        known = {(one.execution, one.token) for one in self.effects.withdraw}
        if (ref.execution, ref.token) not in known:
            self.effects.withdraw.append(AgentWithdrawal(ref.execution, ref.token, reason))

    def _reconciled(self, run: Run) -> None:
        """The host answers again, and the outcome is known or will be."""
        self.effects.reconciled += 1
        execution = run.execution
        data = {"job": execution.job_id, "host": execution.host_id, "token": execution.token}
        event = new_event("execution.reconciled", run.task, self._now, **data)
        self.effects.events.append(replace(event, version=run.task.version))


def abort_id(execution: str, token: int) -> str:
    """The id of the command that stops a run."""
    return f"{ABORT_ID}{execution}#{token}"
