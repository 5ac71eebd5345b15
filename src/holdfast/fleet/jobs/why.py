"""Why an execution is where it is: every reason, the one that counts first.

Promises: the same rules as those that decide: approval, halt, wave, block, window, host, slot.
"""

from __future__ import annotations

import msgspec

from holdfast.core.fleet.blocks import block as rules_of_blocks
from holdfast.core.fleet.hosts.service import HostService
from holdfast.core.fleet.jobs.spec import read_spec
from holdfast.core.fleet.model import Execution, HostState, Job
from holdfast.core.fleet.rollout.policy import place_of, size_of, wave_of
from holdfast.core.fleet.rollout.state import RolloutState
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.task import ENDED, Status, Task
from holdfast.core.wire import time_text
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.jobs.job_rows import GRANTED, rollout_of
from holdfast.fleet.jobs.reads import ExecutionView, TargetHost, target_hosts
from holdfast.fleet.jobs.verdicts import read_blocks
from holdfast.fleet.jobs.waiting import read_execution
from holdfast.store.script import Script
from holdfast.store.store import Store


class Cause(msgspec.Struct, frozen=True):
    """One reason."""

    code: str
    """`ended`, `approval`, `halt`, `wave`, `window`, `block`, `held`, `host_gone`, `host_cordoned`,
    `host_unreachable`, `agent_closed`, `turn`, `host_busy`, `not_due`, `running`."""
    text: str


class ExecutionWhy(msgspec.Struct, frozen=True):
    """The answer: the first reason is the one that counts now."""

    view: ExecutionView
    causes: list[Cause]


class ExecutionReasons:
    """The reads of reasons."""

    def __init__(self, store: Store, rules: FleetRules) -> None:
        self._store = store
        self._rules = rules

    async def why(self, job: Job, view: ExecutionView) -> ExecutionWhy:
        now = self._store.now()
        causes = await self._store.read(lambda: _causes(job, view, now, self._rules))
        return ExecutionWhy(view, causes)


def _causes(job: Job, view: ExecutionView, now: float, rules: FleetRules) -> Script[list[Cause]]:
    execution, task = view.execution, view.task
    if task.status in ENDED:
        return [Cause("ended", view.shown.reason)]
    if task.status in (Status.RUNNING, Status.STUCK):
        return [Cause("running", view.shown.reason)]
    blocks = yield from read_blocks(job.project, read_spec(job.spec_json).command_type, now)
    hosts = yield from host_scripts.pinned([execution.host_id])
    found = yield from target_hosts([execution.host_id], rules.look(now))
    causes = _of_job(job, execution, task)
    host = hosts.get(execution.host_id)
    if host is not None:
        causes += _of_blocks(blocks.explain(host))
    if task.held_by is not None and not (causes and causes[-1].code == "block"):
        causes.append(Cause("held", f"held by {task.held_by}"))
    target = found.get(execution.host_id)
    causes += _of_host(execution, target)
    if target is not None and target.holder not in (None, execution.task_id):
        causes.append((yield from _of_slot(execution, target.holder)))
    if execution.away and task.held_by is None:
        causes.append(_of_turn(job))
    if task.status is Status.QUEUED and task.due_at > now:
        text = (
            f"attempt {task.attempts + 1} of {task.max_attempts} is due at {time_text(task.due_at)}"
        )
        causes.append(Cause("not_due", text))
    if not causes and target is not None and rules.is_pushed(target.driver):
        text = f"waits for a process that is free to reach {execution.host}"
        return [Cause("queued", text)]
    return causes or [Cause("queued", view.shown.reason)]


def _of_job(job: Job, execution: Execution, task: Task) -> list[Cause]:
    causes: list[Cause] = []
    rollout = rollout_of(job)
    state, policy = rollout.state, rollout.policy
    if job.approval_state not in GRANTED:
        voters = f"`holdfast job show {job.id}` says who may give it"
        text = f"the job waits for an approval ({job.approval_state}): {voters}"
        causes.append(Cause("approval", text))
    if state.halt is not None:
        causes.append(
            Cause("halt", f"the job is halted by {state.halt.actor}: {state.halt.reason}")
        )
    if task.status is not Status.BLOCKED:
        return causes
    wave = wave_of(policy, job.hosts, execution.nth)
    if wave > state.wave:
        causes.append(Cause("wave", f"the host is in wave {wave}; {_open_wave(job, state)}"))
    else:
        ahead = place_of(policy, job.hosts, execution.nth) - state.admitted
        window = size_of(policy.max_in_flight, job.hosts)
        text = f"{state.in_flight} of at most {window} hosts run; {max(0, ahead)} come before it"
        causes.append(Cause("window", text))
    return causes


def _open_wave(job: Job, state: RolloutState) -> str:
    if state.asked:
        return f"it waits for a person to open it: `holdfast job promote {job.id}`"
    return f"wave {state.wave} is open" if state.wave else "no wave is open yet"


def _of_turn(job: Job) -> Cause:
    """Of a host that has left the window."""
    rollout = rollout_of(job)
    state, window = rollout.state, size_of(rollout.policy.max_in_flight, job.hosts)
    text = f"the host left the window and waits for its turn: {state.in_flight} of at most {window} hosts run"
    if state.late:
        text += f", and wave {state.late} runs late"
    return Cause("turn", text)


def _of_blocks(found: list[rules_of_blocks.BlockExplanation]) -> list[Cause]:
    return [Cause("block", each.text) for each in found if each.in_force]


def _of_host(execution: Execution, host: TargetHost | None) -> list[Cause]:
    if host is None or host.state is HostState.GONE:
        return [Cause("host_gone", f"host {execution.host} was removed")]
    causes: list[Cause] = []
    if host.state is HostState.CORDONED:
        causes.append(Cause("host_cordoned", f"host {execution.host} gets nothing new"))
    elif host.service is HostService.SILENT and host.unreachable_at is not None:
        tried = time_text(host.unreachable_at)
        causes.append(
            Cause("host_unreachable", f"{execution.host} could not be reached at {tried}")
        )
    elif host.service is HostService.SILENT:
        seen = (
            "was never heard"
            if host.seen_at is None
            else f"was last heard at {time_text(host.seen_at)}"
        )
        causes.append(Cause("host_unreachable", f"the agent of {execution.host} {seen}"))
    elif host.service is HostService.CLOSED:
        text = (
            f"the agent of {execution.host} takes nothing: it drains until it is restarted, it updates, or "
            "its spool is full"
        )
        causes.append(Cause("agent_closed", text))
    return causes


def _of_slot(execution: Execution, holder: str) -> Script[Cause]:
    """What has the slot of the host. Its job may be pruned."""
    text = f"execution {holder} has the slot of {execution.host}"
    other = yield from read_execution(holder)
    if other is not None:
        text += f": `holdfast job show {other.job_id}`"
    return Cause("host_busy", text)
