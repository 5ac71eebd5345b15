"""A host with an honest agent, and the server as the rules see it, both in memory.

`Server` applies effects as the store does. `HonestAgent` follows the protocol over a journal, and loses what
a crash loses. Nothing here decides what the rules decide."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, lease
from holdfast.core.command import Abort, Command, Expire, Instruction
from holdfast.core.decide import decide
from holdfast.core.fleet.agents.facts import AgentStanding, JobCommand, Run, RunCommand
from holdfast.core.fleet.agents.fencing import fenced
from holdfast.core.fleet.agents.offer_rules import next_offer, offer_of
from holdfast.core.fleet.agents.rules import judge
from holdfast.core.fleet.agents.wire import (
    AgentOffer,
    AgentResult,
    AgentRun,
    AgentSync,
    AgentSyncAnswer,
    TokenRef,
)
from holdfast.core.fleet.model import (
    FLEET_QUEUE,
    FLEET_TYPE,
    Agent,
    ApprovalState,
    Execution,
    HostState,
    Job,
    JobStatus,
)
from holdfast.core.gate import of_node
from holdfast.core.lease import LeaseRow
from holdfast.core.node_identity import NodeState
from holdfast.core.start_once import RunPhase, phase_of
from holdfast.core.task import ENDED, LEASED, Priority, Status, Task, TaskOptions
from holdfast.core.transition import Ruling, Transition

HOST = "hst_1"
LEASE = 60.0
PHASES = list(RunPhase)
LOST_AFTER = 900.0
START = 1_000.0


def make_job(**changes: object) -> Job:
    job = Job(
        id="job_1",
        project="default",
        external_id=None,
        request_hash="",
        spec_json="{}",
        digest="d1:x",
        approval_state=ApprovalState.NOT_REQUIRED,
        status=JobStatus.RUNNING,
        hosts=1,
        created_by="user:ann",
        created_at=START,
        not_after=START + 1e9,
    )
    return replace(job, **changes)


def make_task(task_id: str, *, attempts: int = 1) -> Task:
    options = TaskOptions(pinned=True, lost_after_seconds=LOST_AFTER)
    return Task(
        id=task_id,
        type=FLEET_TYPE,
        queue=FLEET_QUEUE,
        priority=Priority.NORMAL,
        status=Status.QUEUED,
        payload_json="{}",
        metadata_json=None,
        options_json=codec.dumps(options),
        attempts=0,
        max_attempts=attempts,
        deaths=0,
        version=1,
        fence=0,
        created_at=START,
        updated_at=START,
        due_at=START,
        gate=of_node(HOST),
        assigned_to=HOST,
    )


def make_run(task_id: str, job: Job, command: RunCommand, *, attempts: int = 1) -> Run:
    execution = Execution(task_id=task_id, job_id=job.id, nth=1, host_id=HOST, host="web-1", wave=1)
    return Run(make_task(task_id, attempts=attempts), execution, JobCommand(job, command))


COMMAND = RunCommand(command_type="exec", kind="argv", argv=("true",))
IDEMPOTENT = replace(COMMAND, is_idempotent=True, on_restart="rerun")


class Server:
    """One host's part of the store."""

    def __init__(self, runs: list[Run]) -> None:
        self.now = START
        self.runs = {run.task.id: run for run in runs}
        self.slot = LeaseRow(f"host:{HOST}", clock_at=START)
        self.agent = Agent(
            host_id=HOST,
            project="default",
            journal_id="j0",
            boot_id="b0",
            incarnation=1,
            seen_at=START,
            enrolled_at=START,
        )
        self.history: dict[str, list[Status]] = {run.task.id: [run.task.status] for run in runs}
        self.ended_by: dict[str, int] = {}
        """The token whose result ended a task."""
        self.revoked: set[int] = set()

    @property
    def standing(self) -> AgentStanding:
        slot = replace(self.slot, clock_at=max(self.slot.clock_at, self.now))
        return AgentStanding(
            self.agent, NodeState.LIVE, self.agent.incarnation, "web-1", HostState.ACTIVE, slot
        )

    def sync(self, message: AgentSync) -> AgentSyncAnswer | None:
        """The answer; None for an agent that is fenced."""
        if fenced(self.standing, message) is not None:
            return None
        token = self.slot.fence
        open_before = {id for id, run in self.runs.items() if run.task.status not in ENDED}
        effects = judge(self.standing, message, self.runs, self.now)
        self._apply(effects.rulings)
        for ended in effects.ended:
            if ended.task_id in open_before and self.runs[ended.task_id].task.status in ENDED:
                self.ended_by[ended.task_id] = ended.result.token
        self._write(list(effects.executions.values()))
        for run_id in effects.renewals:
            task = self.runs[run_id.task_id].task
            if task.fence != run_id.fence or task.lease_until is None:
                continue  # the same message has ended the run
            assert task.status in LEASED
            self._put(replace(task, lease_until=self.now + LEASE))
        self.slot = effects.slot
        seq = max(self.agent.seq, message.seq)
        self.agent = replace(self.agent, seq=seq, seen_at=self.now)
        repeat = effects.repeat
        offers = [] if repeat is None else [offer_of(self.runs[repeat.task.id], {}, 10.0)]
        if effects.may_offer:
            offers += self._offer()
        if message.running:
            assert all(offer.token == token for offer in offers), "it runs something"
        return AgentSyncAnswer(
            seq=message.seq,
            heartbeat_seconds=25.0,
            lease_seconds=LEASE,
            server_epoch="e",
            offers=offers,
            go=effects.go,
            withdraw=effects.withdraw,
            commands=effects.commands,
            acks=effects.acks,
            probe=effects.probe,
        )

    def start(self, journal_id: str, boot_id: str) -> int:
        agent = self.agent
        agent = replace(agent, incarnation=agent.incarnation + 1, seq=0)
        if journal_id != agent.journal_id:
            agent = replace(agent, journal_id=journal_id, journal_token=self.slot.fence)
        if boot_id != agent.boot_id:
            agent = replace(agent, boot_id=boot_id, boot_token=self.slot.fence)
        self.agent = agent
        return agent.incarnation

    def sweep(self) -> None:
        """Ends the leases that are over."""
        for run in list(self.runs.values()):
            task = run.task
            if task.lease_until is not None and task.lease_until <= self.now:
                self.command(task.id, Expire(), fence=task.fence)

    def command(self, task_id: str, command: Command, fence: int | None = None) -> Ruling:
        task = self.runs[task_id].task
        ruling = decide(task, Instruction(task_id, command, fence=fence), self.now)
        self._apply([ruling])
        return ruling

    def abort(self, task_id: str) -> None:
        self.command(task_id, Abort("user:ann", "enough"))

    def revoke(self) -> None:
        if self.slot.claim_id is not None:
            self.revoked.add(self.slot.fence)
            self.slot = lease.revoked(replace(self.slot, clock_at=self.now))

    def set_job(self, **changes: object) -> None:
        for run in list(self.runs.values()):
            job = replace(run.job.job, **changes)
            self.runs[run.task.id] = replace(run, job=replace(run.job, job=job))

    @property
    def is_over(self) -> bool:
        return all(run.task.status in ENDED for run in self.runs.values())

    def _offer(self) -> list[AgentOffer]:
        due = [
            run
            for run in self.runs.values()
            if run.task.status is Status.QUEUED and run.task.due_at <= self.now
        ]
        offered = next_offer(
            due,
            self.slot,
            standing=self.standing,
            blocked_by=lambda run: None,
            environment_of=lambda command: {},
            lease_seconds=LEASE,
            now=self.now,
        )
        self._apply(offered.rulings)
        self._write(offered.executions)
        self.slot = offered.slot
        return [] if offered.run is None else [offer_of(offered.run, {}, 10.0)]

    def _apply(self, rulings: list[Ruling]) -> None:
        for ruling in rulings:
            if isinstance(ruling, Transition):
                assert ruling.before == self.runs[ruling.after.id].task, (
                    "a change on top of the last one"
                )
                self._put(ruling.after)

    def _put(self, task: Task) -> None:
        before = self.runs[task.id].task
        if before.status in LEASED and task.status in LEASED and before.fence == task.fence:
            assert PHASES.index(phase_of(before)) <= PHASES.index(phase_of(task))
        self.runs[task.id] = replace(self.runs[task.id], task=task)
        self.history[task.id].append(task.status)

    def _write(self, executions: list[Execution]) -> None:
        for execution in executions:
            run = self.runs[execution.task_id]
            self.runs[execution.task_id] = replace(run, execution=execution)


class Step(StrEnum):
    """How far a token has come on the host."""

    ACCEPTED = "accepted"
    STARTED = "started"
    EXITED = "exited"


class Journaled(msgspec.Struct):
    offer: AgentOffer
    step: Step
    boot_id: str = ""
    result: AgentResult | None = None


class HonestAgent:
    """An agent as the protocol has it. Its journal survives a crash; the command runs under a supervisor, so
    it survives a crash of the agent, but not a boot of the host."""

    def __init__(self) -> None:
        self.journal: dict[int, Journaled] = {}
        self.last_token = 0
        self.journal_id, self.boot_id = "j0", "b0"
        self.incarnation, self.seq = 1, 0
        self.alive: set[int] = set()
        """Tokens whose command runs."""
        self.starts: Counter[int] = Counter()
        self.started: list[str] = []
        """The executions of these starts."""
        self.most_alive = 0
        self.exits: dict[int, int] = {}
        self.asked: dict[int, str] = {}
        """Probes for tokens that the journal does not have."""
        self.acked: set[str] = set()
        self._names = 0

    def message(self) -> AgentSync:
        self.seq += 1
        entries = self.journal.items()
        return AgentSync(
            boot_id=self.boot_id,
            incarnation=self.incarnation,
            seq=self.seq,
            accepts=[
                TokenRef(one.offer.execution, token)
                for token, one in entries
                if one.step is Step.ACCEPTED
            ],
            running=[
                AgentRun(execution=one.offer.execution, token=token, phase=one.step.value)
                for token, one in entries
                if one.step is not Step.EXITED
            ],
            results=[
                *(one.result for _, one in entries if one.result is not None),
                *(
                    self._result(f"probe-{token}", execution, token, "never_started")
                    for token, execution in self.asked.items()
                ),
            ],
        )

    def hear(self, answer: AgentSyncAnswer) -> None:
        for offer in answer.offers:
            self._take(offer)
        for ref in answer.go:
            if self._is_accepted(ref.token):
                self._start(ref.token)
        for gone in answer.withdraw:
            if self._is_accepted(gone.token):
                del self.journal[gone.token]
        for command in answer.commands:
            if command.token in self.alive:
                self.exit(command.token, -9, killed=True)
        self._forget(answer.acks)
        for ref in answer.probe:
            if ref.token not in self.journal:
                # Its offer may still be on its way: what was called not started never starts.
                self.asked[ref.token] = ref.execution
                self.last_token = max(self.last_token, ref.token)

    def _take(self, offer: AgentOffer) -> None:
        if offer.token > self.last_token:
            self.last_token = offer.token
            self.journal[offer.token] = Journaled(offer, Step.ACCEPTED)
            if offer.go:
                self._start(offer.token)

    def _is_accepted(self, token: int) -> bool:
        return token in self.journal and self.journal[token].step is Step.ACCEPTED

    def _forget(self, acks: list[str]) -> None:
        self.acked.update(acks)
        self.journal = {t: one for t, one in self.journal.items() if _id(one) not in acks}
        self.asked = {t: name for t, name in self.asked.items() if f"probe-{t}" not in acks}

    def exit(self, token: int, code: int, *, killed: bool = False) -> None:
        self.alive.discard(token)
        self.exits[token] = code
        entry = self.journal.get(token)
        if entry is not None:
            entry.step = Step.EXITED
            entry.result = self._result(
                self._name(), entry.offer.execution, token, "exited", code, killed=killed
            )

    def crash(self) -> None:
        """The agent's process ends; the journal stays. What had no start record is given back."""
        self.asked.clear()
        for token, entry in list(self.journal.items()):
            if entry.step is Step.ACCEPTED:
                entry.step = Step.EXITED
                entry.result = self._result(
                    self._name(), entry.offer.execution, token, "never_started"
                )

    def boot(self, boot_id: str) -> None:
        """The host restarts: commands end without a result."""
        self.boot_id = boot_id
        self.alive.clear()
        self.crash()
        for token, entry in self.journal.items():
            if entry.step is Step.STARTED:
                entry.step = Step.EXITED
                entry.result = self._result(self._name(), entry.offer.execution, token, "unknown")

    def lose_journal(self, journal_id: str, last_token: int) -> None:
        """The disk is new. Commands of this boot may still run, unseen."""
        self.journal_id = journal_id
        self.journal.clear()
        self.asked.clear()
        self.last_token = last_token

    def _start(self, token: int) -> None:
        self.journal[token].step = Step.STARTED
        self.starts[token] += 1
        self.started.append(self.journal[token].offer.execution)
        self.alive.add(token)
        self.most_alive = max(self.most_alive, len(self.alive))

    def _name(self) -> str:
        self._names += 1
        return f"r-{self._names}"

    def _result(
        self,
        name: str,
        execution: str,
        token: int,
        state: str,
        code: int | None = None,
        *,
        killed: bool = False,
    ) -> AgentResult:
        return AgentResult(
            id=name, execution=execution, token=token, state=state, exit_code=code, killed=killed
        )


def _id(entry: Journaled) -> str | None:
    return None if entry.result is None else entry.result.id
