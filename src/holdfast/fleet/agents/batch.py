"""A batch of syncs in one transaction: any number of agents, a fixed number of statements.

Promises: the rows of agents commit with the effects of their syncs, so a repeat changes nothing. An agent
whose slot gets free is offered its next execution in the same transaction. One message of an agent is in a
batch. Never: decides (`core.fleet.agents.rules`, `core.fleet.agents.offer_rules`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.decide import ended
from holdfast.core.errors import CommandRefused, NodeFenced
from holdfast.core.fleet.agents import facts, fencing, rules as agent_rules
from holdfast.core.fleet.agents.facts import AgentStanding, JobCommand, Run, SyncEffects
from holdfast.core.fleet.agents.offer_rules import Offered, next_offer, offer_of
from holdfast.core.fleet.agents.wire import (
    AgentBlock,
    AgentCommand,
    AgentOffer,
    AgentSync,
    AgentSyncAnswer,
)
from holdfast.core.fleet.model import FLEET_QUEUE, Execution
from holdfast.core.gate import of_node
from holdfast.core.ids import Ids
from holdfast.core.intervention import AckOutcome, Intervention, acknowledged, delivered
from holdfast.core.lease import LeaseRow
from holdfast.core.start_once import RunPhase, phase_of
from holdfast.core.task import RunId, Task
from holdfast.core.transition import Ruling, Transition
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.fleet.agents.outputs import RunOutputs
from holdfast.fleet.agents.parts import AgentMessage, SyncAnswer, Synced, SyncParts
from holdfast.fleet.agents.rows import (
    AgentRow,
    changed_slots,
    lock_agents,
    own,
    read_jobs,
    read_runs,
    read_slots,
    save_slots,
    write_runs,
    write_syncs,
)
from holdfast.fleet.block_epoch import read_epochs
from holdfast.fleet.starts import share_starts
from holdfast.store.port import Dialect, RowHeld
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply
from holdfast.store.scripts.interventions import advance_loaded
from holdfast.store.scripts.work import Work
from holdfast.sync.rows import unknown_node

OFFER_LOOK: Final = 8
"""Due executions of a host that an offer looks at, without those of jobs that wait. Those before the first
that may start end, or are held by blocks."""
RENEW_SHARE: Final = 0.1
"""A lease is written again when this share of it is used up."""


def sync_batch(
    dialect: Dialect, ids: Ids, now: float, *, messages: Sequence[AgentMessage], parts: SyncParts
) -> Script[Synced]:
    """Applies syncs of several agents."""
    batch = _Batch(messages, parts, now)
    yield from batch.load()
    yield from batch.judge()
    yield from batch.command()
    yield from batch.offer()
    yield from batch.list_blocks()
    yield from batch.save(dialect, ids.record(now))
    return batch.answered()


class _Batch:
    """One transaction."""

    def __init__(self, messages: Sequence[AgentMessage], parts: SyncParts, now: float) -> None:
        self._messages = {message.host_id: message.sync for message in messages}
        assert len(self._messages) == len(messages), "one message of each agent"
        self._parts = parts
        self._accept_within = parts.rules.accept_within_seconds
        self._now = now
        self._work = Work(now)
        self._agents: dict[str, AgentRow] = {}
        self._refused: dict[str, HoldfastError] = {}
        self._slots: dict[str, LeaseRow] = {}
        self._names: dict[str, set[str]] = {}
        """Executions that the message of a host names, and the one that has its slot."""
        self._executions: dict[str, Execution] = {}
        self._jobs: dict[str, JobCommand] = {}
        self._effects: dict[str, SyncEffects] = {}
        self._offers: dict[str, list[AgentOffer]] = {}
        self._commands: dict[str, list[AgentCommand]] = {}
        self._changed: dict[str, Execution] = {}
        self._epochs: dict[str, int] = {}
        self._blocks: dict[str, list[AgentBlock]] = {}
        self._outputs = RunOutputs(self._work.tasks, self._executions, self._jobs, parts.redact)
        self.figures: Counter[str] = Counter()

    # -- reading ---------------------------------------------------------------------------------------

    def load(self) -> Script[None]:
        """Locks the agents, what their messages name, and their slots, in the order of all transactions. An
        agent with a row that another transaction holds is refused, and one that asks for a start while starts
        are held."""
        may_start = yield from share_starts()
        self._agents, held = yield from lock_agents(self._messages)
        for host_id, host in held.items():
            self._refuse_held(host_id, host)
        slots = yield from read_slots(self._agents, lock=False)
        for host_id, message in self._messages.items():
            if host_id not in held:
                self._check(host_id, message, self._agents.get(host_id), slots.get(host_id))
                if host_id not in self._refused and not may_start and facts.asks_for_start(message):
                    self._refuse_held(host_id, self._agents[host_id].host)
        self._names = {host: facts.named(self._messages[host]) for host in self._heard}
        for host, names in self._names.items():
            if host in slots and (claim_id := slots[host].claim_id) is not None:
                names.add(claim_id)
        pairs = {(name, host) for host, names in self._names.items() for name in names}
        if pairs:
            self._work.load((yield call_rows(own("lock_named"), sorted(pairs))))
        if any(slot.claim_id is not None for slot in slots.values()):
            known, slots = slots.keys(), (yield from read_slots(self._names, lock=True))
            for host in self._names.keys() & known - slots.keys():
                self._refuse_held(host, self._agents[host].host)
        self._slots = slots
        projects = {self._agents[host].agent.project for host in self._names}
        self._epochs = yield from read_epochs(projects)
        yield from self._read_runs({name for name, _ in pairs})
        yield from self._refuse_unlocked()

    def _refuse_unlocked(self) -> Script[None]:
        """An agent that names executions of other hosts is refused, without a lock on them; and one whose
        executions another transaction holds."""
        unlocked = set().union(*self._names.values()) - self._executions.keys()
        found = (yield from read_runs(unlocked)) if unlocked else {}
        held = (
            {task.id for task in (yield call("get_tasks", ids=sorted(found)))} if found else set()
        )
        executions = self._executions | found
        for host_id, names in self._names.items():
            owners = {name: executions[name].host_id for name in names & executions.keys()}
            foreign = sorted(name for name, owner in owners.items() if owner != host_id)
            if foreign:
                self._refused[host_id] = InvalidInput(
                    f"execution '{foreign[0]}' is not one of host '{self._agents[host_id].host}'"
                )
            elif names & held:
                self._refuse_held(host_id, self._agents[host_id].host)

    def _refuse_held(self, host_id: str, host: str) -> None:
        self._refused[host_id] = RowHeld(
            f"another transaction holds a row of host '{host}': try again in a moment"
        )

    def _check(
        self, host_id: str, message: AgentSync, row: AgentRow | None, slot: LeaseRow | None
    ) -> None:
        if row is None:
            self._refused[host_id] = unknown_node(host_id)
            return
        reason = fencing.fenced(row.standing(slot, self._now), message)
        if reason is not None:
            self._refused[host_id] = NodeFenced(reason)
            self.figures["fenced"] += 1

    def _standing(self, host_id: str) -> AgentStanding:
        return self._agents[host_id].standing(self._slots.get(host_id), self._now)

    @property
    def _heard(self) -> list[str]:
        return [host for host in self._messages if host not in self._refused]

    def _read_runs(self, ids: Collection[str]) -> Script[None]:
        """The executions of tasks that are loaded, with their jobs, which are read behind the locks of the
        tasks: a halt that was committed before is seen."""
        found = yield from read_runs([i for i in ids if i in self._work.tasks])
        self._executions.update(found)
        jobs = yield from read_jobs({one.job_id for one in found.values()})
        for job in jobs.values():
            self._jobs[job.id] = JobCommand(job, self._parts.command_of(job))

    def _run(self, task_id: str) -> Run | None:
        task, execution = self._work.tasks.get(task_id), self._executions.get(task_id)
        job = None if execution is None else self._jobs.get(execution.job_id)
        if task is None or execution is None or job is None:
            return None
        return Run(task, self._changed.get(task_id, execution), job)

    # -- judging ---------------------------------------------------------------------------------------

    def judge(self) -> Script[None]:
        runs = [run for name in self._work.tasks if (run := self._run(name)) is not None]
        waiting = [run for run in runs if phase_of(run.task) is not RunPhase.STARTED]
        blocked_by = yield from self._parts.blocks.verdicts(waiting, self._epochs, self._now)
        for host_id in self._heard:
            message = self._messages[host_id]
            names = self._names[host_id]
            found = {name: run for name in names if (run := self._run(name)) is not None}
            standing = self._standing(host_id)
            effects = agent_rules.judge(standing, message, found, self._now, blocked_by)
            self._effects[host_id] = effects
            self._move(effects.rulings)
            self._work.mention(effects.events)
            self._changed.update(effects.executions)
            self.figures["reconciled"] += effects.reconciled
            self.figures["late"] += effects.late

    def _move(self, rulings: Sequence[Ruling]) -> None:
        for ruling in rulings:
            if isinstance(ruling, Transition):
                self._work.move(ruling)
            else:
                self._work.mention(ruling.events)

    def command(self) -> Script[None]:
        """Commands get the names of the interventions that they come from; confirmed ones end there."""
        stopped = {
            (one.execution, self._executions[one.execution].fence or 0): (host, one)
            for host, effects in self._effects.items()
            for one in effects.commands
        }
        confirmed = {run for effects in self._effects.values() for run in effects.confirmed}
        pairs = [*stopped, *((run.task_id, run.fence) for run in confirmed)]
        for host, effects in self._effects.items():
            self._commands[host] = effects.commands
        if not pairs:
            return
        pending = yield call_rows("pending_for_runs", sorted(pairs))

        def step(row: Intervention, _task: Task | None) -> Intervention:
            if RunId(row.task_id, row.target_fence or 0) in confirmed:
                return acknowledged(row, AckOutcome.DONE, "the host has ended it", self._now)
            return delivered(row, self._now)

        for row in (yield from advance_loaded(self._work, pending, step)) if pending else ():
            host, command = stopped.get((row.task_id, row.target_fence or 0), ("", None))
            if command is not None and row.is_pending:
                named = msgspec.structs.replace(command, id=row.id)
                self._commands[host] = [
                    named if one is command else one for one in self._commands[host]
                ]

    # -- offers ----------------------------------------------------------------------------------------

    def offer(self) -> Script[None]:
        """Offers executions to hosts whose slots are free."""
        for host_id, effects in self._effects.items():
            self._offers[host_id] = []
            if effects.repeat is not None:
                self._repeat(host_id, effects.repeat)
        free = [host for host, effects in self._effects.items() if effects.may_offer]
        candidates = yield from self._candidates(free)
        if not candidates:
            return
        runs = [run for some in candidates.values() for run in some]
        blocked_by = yield from self._parts.blocks.verdicts(runs, self._epochs, self._now)
        for host_id, some in candidates.items():
            effects = self._effects[host_id]
            offered = next_offer(
                some,
                effects.slot,
                standing=self._standing(host_id),
                blocked_by=blocked_by,
                environment_of=self._parts.environment_of,
                lease_seconds=self._parts.rules.lease_seconds,
                now=self._now,
            )
            self._take(host_id, offered)

    def list_blocks(self) -> Script[None]:
        """The blocks of agents that know an older list."""
        behind = {
            host: self._agents[host].agent.project
            for host in self._effects
            if self._messages[host].block_epoch != self._epochs[self._agents[host].agent.project]
        }
        if behind:
            self._blocks = yield from self._parts.blocks.lists(behind, self._epochs, self._now)

    def _candidates(self, hosts: Sequence[str]) -> Script[dict[str, list[Run]]]:
        if not hosts or (yield call("paused_queue", name=FLEET_QUEUE)):
            return {}
        gates = [of_node(host) for host in sorted(hosts)]
        tasks: list[Task] = yield call(
            own("next_parked"), gates=gates, now=self._now, limit=OFFER_LOOK
        )
        self._work.load(tasks)
        yield from self._read_runs([task.id for task in tasks])
        found: dict[str, list[Run]] = {}
        for task in tasks:
            run = self._run(task.id)
            if run is not None and task == self._work.tasks[task.id]:
                found.setdefault(run.execution.host_id, []).append(run)
        return found

    def _take(self, host_id: str, offered: Offered) -> None:
        self._move(offered.rulings)
        self._changed.update({one.task_id: one for one in offered.executions})
        self._effects[host_id].slot = offered.slot
        for outcome in offered.ended:
            self.figures[f"offer:{outcome}"] += 1
        if offered.run is not None:
            self._offers[host_id].append(offer_of(offered.run, offered.env, self._accept_within))
            self.figures["offer:offered"] += 1

    def _repeat(self, host_id: str, run: Run) -> None:
        if run.job.command.refusal:
            return  # as below
        try:
            env = self._parts.environment_of(run.job.command)
        except CommandRefused:
            return  # its lease ends; the next offer says why
        self._offers[host_id].append(offer_of(run, env, self._accept_within))
        self.figures["offer:repeated"] += 1

    # -- writing ---------------------------------------------------------------------------------------

    def save(self, dialect: Dialect, record_id: int) -> Script[None]:
        chunks = [chunk for effects in self._effects.values() for chunk in effects.chunks]
        closing = [run for effects in self._effects.values() for run in effects.ended]
        placed = yield from self._outputs.add(chunks, closing, self._now)
        self._work.mention(placed.events)
        for task_id, states in placed.states.items():
            execution = self._changed.get(task_id, self._executions[task_id])
            self._changed[task_id] = replace(execution, output_json=states)
        for effects in self._effects.values():
            for one in effects.chunks:
                key = (one.task_id, one.stream)
                effects.log_next["/".join(key)] = placed.log_next[key]
        self.figures["output"] += placed.received
        self.figures["folded"] += placed.folded
        yield from self._renew()
        slots = [(self._standing(host).slot, one.slot) for host, one in self._effects.items()]
        yield from save_slots(changed_slots(slots, self._now), self._now)
        yield from write_runs(self._changed.values())
        heard = [(self._agents[host].agent, self._messages[host]) for host in self._effects]
        yield from write_syncs(heard, self._now)
        yield from apply.finish(self._work, record_id, dialect)

    def _renew(self) -> Script[None]:
        """Renews leases of runs that their agents have. A task that is written anyway has it in its row."""
        until = self._now + self._parts.rules.lease_seconds
        soon = until - self._parts.rules.lease_seconds * RENEW_SHARE
        moved = {transition.after.id for transition in self._work.transitions}
        rows: list[tuple[Any, ...]] = []
        for effects in self._effects.values():
            for run in effects.renewals:
                task = self._work.tasks[run.task_id]
                if task.fence != run.fence or task.lease_until is None:
                    continue  # the same message has ended the run
                if run.task_id in moved:
                    self._work.tasks[run.task_id] = replace(task, lease_until=until)
                elif task.lease_until <= soon:
                    rows.append((run.task_id, run.fence))
        if rows:
            yield call_rows("extend_leases", sorted(rows), until=until)

    # -- answering -------------------------------------------------------------------------------------

    def answered(self) -> Synced:
        answers: list[SyncAnswer] = [
            self._refused.get(host) or self._answer(host) for host in self._messages
        ]
        moved = self._work.transitions
        return Synced(answers, self.figures, any(map(ended, moved)), bool(self._work.events))

    def _answer(self, host_id: str) -> AgentSyncAnswer:
        effects, message = self._effects[host_id], self._messages[host_id]
        parts = self._parts
        return AgentSyncAnswer(
            seq=message.seq,
            heartbeat_seconds=parts.heartbeat_of(host_id, message.seq),
            lease_seconds=parts.rules.lease_seconds,
            server_epoch=parts.server_epoch,
            block_epoch=self._epochs[self._agents[host_id].agent.project],
            blocks=self._blocks.get(host_id),
            offers=self._offers[host_id],
            go=effects.go,
            withdraw=effects.withdraw,
            commands=self._commands[host_id],
            acks=effects.acks,
            log_next=effects.log_next,
            probe=effects.probe,
            acked_token=facts.acked_token(effects.slot, message),
        )
