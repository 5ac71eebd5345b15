"""Laws about the fleet: what really ran on its hosts, against what is shown and what was answered."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from holdfast.core.fleet.blocks.block import matches
from holdfast.core.fleet.jobs.spec import read_spec
from holdfast.core.fleet.model import FLEET_TYPE, ApprovalState, Execution
from holdfast.core.fleet.rollout.policy import size_of
from holdfast.core.fleet.status import ENDED_KINDS, ExecutionKind as K, may_follow, shown
from holdfast.core.task import ENDED
from holdfast.fleet.simulated.machine import RealRun
from holdfast.sim.outcome import Outcome
from holdfast.sim.server import Change

NEVER_STARTED: Final = frozenset(
    {
        *(K.TIMEOUT_DELIVERY, K.EXPIRED, K.UNDELIVERABLE, K.REFUSED, K.BLOCKED),
        *(K.CANCELLED_BEFORE_START, K.SKIPPED, K.REJECTED),
    }
)
CANCELLED: Final = frozenset(
    {K.CANCELLED_BEFORE_START, K.CANCELLED_KILLED, K.CANCELLED_UNCONFIRMED}
)
"""Which of them it is may become known after the end."""
DELIVERY_SECONDS: Final = 120.0
"""A go that was given before a halt has started its command, or never will, after this time."""
_tokens: Final = msgspec.json.Decoder(list[int])


def hosts_run_one_command_at_a_time(outcome: Outcome) -> Iterator[str]:
    for host, runs in outcome.record.fleet.runs.items():
        ordered = sorted(runs, key=lambda run: run.started_at)
        for before, after in pairwise(ordered):
            if before.ended_at is None or before.ended_at > after.started_at:
                yield (
                    f"{host} started token {after.token} at {after.started_at:.3f}, beside {before.token}"
                )


def tokens_start_once(outcome: Outcome) -> Iterator[str]:
    for host, runs in outcome.record.fleet.runs.items():
        starts = Counter((run.token, run.is_probe) for run in runs)
        for (token, _), n in starts.items():
            if n > 1:
                yield f"{host} started token {token} {n} times"


def commands_start_once(outcome: Outcome) -> Iterator[str]:
    """A command that must not be repeated starts at most once, whatever happens."""
    history = outcome.record.fleet
    for execution_id, runs in runs_by_execution(outcome).items():
        execution = history.executions.get(execution_id)
        if execution is None:
            yield f"{execution_id} ran and is not in the store"
            continue
        if len(runs) > 1 and not read_spec(history.jobs[execution.job_id].spec_json).idempotent:
            tokens = [run.token for run in runs]
            yield f"{execution_id} started {len(runs)} times, under the tokens {tokens}"


def runs_by_execution(outcome: Outcome) -> dict[str, list[RealRun]]:
    found: dict[str, list[RealRun]] = defaultdict(list)
    for runs in outcome.record.fleet.runs.values():
        for run in sorted(runs, key=lambda run: run.started_at):
            if not run.is_probe:
                found[run.execution].append(run)
    return found


def kinds_of(outcome: Outcome) -> dict[str, K]:
    """What is shown of each execution at the end."""
    history = outcome.record.fleet
    return {
        id: shown(outcome.tasks[id], execution, history.jobs[execution.job_id]).kind
        for id, execution in history.executions.items()
        if id in outcome.tasks
    }


def outcomes_are_true(outcome: Outcome) -> Iterator[str]:
    """What is shown is what the host did, or says that it is not known."""
    runs = runs_by_execution(outcome)
    history = outcome.record.fleet
    for id, kind in kinds_of(outcome).items():
        execution = history.executions[id]
        text = _untrue(kind, execution, runs.get(id, []))
        if text is not None:
            yield f"{id} on {execution.host} is {kind}, and {text}"


def _untrue(kind: K, execution: Execution, runs: Sequence[RealRun]) -> str | None:
    """What really happened, if it is something else."""
    last = runs[-1] if runs else None
    if kind in NEVER_STARTED:
        return f"token {last.token} ran" if last is not None else None
    if kind is K.CANCELLED_KILLED:
        return "it still runs" if last is not None and last.ended_at is None else None
    if kind is K.CANCELLED_UNCONFIRMED:
        return "its host was never asked"
    if kind is K.LOST or kind not in ENDED_KINDS:
        return None
    if last is None:
        return "nothing ran"
    if last.is_cut_off:
        return "its host lost its power"
    what = (last.exit_code, last.timed_out, last.killed)
    is_true = {
        K.SUCCEEDED: last.exit_code == 0,
        K.FAILED: last.exit_code not in (None, 0) and execution.exit_code in (None, last.exit_code),
        K.TIMEOUT_EXEC: last.timed_out,
    }[kind]
    return None if is_true else f"it ended with {what}"


def no_result_is_lost(outcome: Outcome) -> Iterator[str]:
    """The end of every run has been reported and taken. That of the last run is shown by its execution, also
    if a later attempt was lost before it started."""
    executions = outcome.record.fleet.executions
    for id, runs in runs_by_execution(outcome).items():
        taken = _tokens.decode(executions[id].taken_json) if id in executions else []
        for run in runs:
            if run.token not in taken:
                yield f"the end of token {run.token} of {id} ({run.exit_code}) was not taken"
        if id in executions and id in outcome.tasks and not _is_shown(outcome, runs[-1]):
            yield f"{id} ended with {runs[-1].exit_code}, which is nowhere shown"


def _is_shown(outcome: Outcome, run: RealRun) -> bool:
    execution, task = outcome.record.fleet.executions[run.execution], outcome.tasks[run.execution]
    if run.exit_code is None or execution.exit_code == run.exit_code or execution.late_json:
        return True
    text = f"exit code {run.exit_code}"
    return text in execution.detail or text in (task.error or "")


def statuses_never_go_back(outcome: Outcome) -> Iterator[str]:
    for id, sightings in outcome.record.fleet.shown.items():
        for before, after in pairwise(sightings):
            is_same = before.kind == after.kind or {before.kind, after.kind} <= CANCELLED
            if before.kind in ENDED_KINDS and not is_same:
                yield f"{id} was {before.kind} and became {after.kind} at {after.at:.1f}"
            elif not may_follow(before.kind, after.kind):
                yield f"{id} went back from {before.kind} to {after.kind} at {after.at:.1f}"


def rollouts_keep_their_window(outcome: Outcome) -> Iterator[str]:
    """Never do more hosts of a job run its command than its window has room for, also not when hosts come
    back or blocks are lifted. A host that was given up for lost does not count any more."""
    history, runs = outcome.record.fleet, runs_by_execution(outcome)
    ends = _ends(outcome.history)
    by_job: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for id, execution in history.executions.items():
        for run in runs.get(id, []):
            end = min(ends.get(id, outcome.seconds), run.ended_at or outcome.seconds)
            if end > run.started_at:
                by_job[execution.job_id] += [(run.started_at, 1), (end, -1)]
    for job_id, moves in by_job.items():
        job = history.jobs[job_id]
        policy = read_spec(job.spec_json).rollout
        window = max(size_of(policy.max_in_flight, job.hosts), *history.windows.get(job_id, [0]))
        running = most = 0
        for _, step in sorted(moves):
            running += step
            most = max(most, running)
        if most > window:
            yield f"{most} hosts ran {job_id} at once, its window is {window}"


def _ends(changes: Sequence[Change]) -> dict[str, float]:
    """When each execution ended, by the store."""
    ended = {status.value for status in ENDED}
    found: dict[str, float] = {}
    for change in changes:
        if change.type == FLEET_TYPE and change.status in ended:
            found[change.id] = change.at
    return found


def claims_of(outcome: Outcome) -> Iterator[tuple[Change, Execution]]:
    """The offers, as the store committed them."""
    executions = outcome.record.fleet.executions
    for change in outcome.history:
        is_claim = change.status == "running" and change.was == "queued"
        if is_claim and change.type == FLEET_TYPE and change.id in executions:
            yield change, executions[change.id]


def halts_are_final(outcome: Outcome) -> Iterator[str]:
    """After the answer to the abort of a job, nothing of it is offered any more. After any halt no
    command starts, except for those that were on their way."""
    history = outcome.record.fleet
    for change, execution in claims_of(outcome):
        aborted_at = history.aborted.get(execution.job_id)
        if aborted_at is not None and change.at > aborted_at:
            yield f"{change.id} was offered at {change.at:.1f}, its job was aborted at {aborted_at:.1f}"
    for id, runs in runs_by_execution(outcome).items():
        ran = history.executions.get(id)
        aborted_at = None if ran is None else history.aborted.get(ran.job_id)
        if aborted_at is not None and runs[-1].started_at > aborted_at + DELIVERY_SECONDS:
            yield f"{id} started at {runs[-1].started_at:.1f}, its job was aborted at {aborted_at:.1f}"


def nothing_starts_unapproved(outcome: Outcome) -> Iterator[str]:
    """Nothing is offered before an operator asked to approve its job, or if it was never approved."""
    history = outcome.record.fleet
    granted = (ApprovalState.APPROVED, ApprovalState.NOT_REQUIRED)
    for change, execution in claims_of(outcome):
        job = history.jobs[execution.job_id]
        if job.approval_id is None:
            continue
        asked_at = history.approved.get(job.id)
        if job.approval_state not in granted or asked_at is None or change.at < asked_at:
            yield f"{change.id} was offered at {change.at:.1f}, its job is {job.approval_state}"


def blocked_hosts_get_nothing(outcome: Outcome) -> Iterator[str]:
    """From the answer to the making of a block until the request to lift it."""
    history = outcome.record.fleet
    blocks = {block.id: block for block in history.blocks}
    for change, execution in claims_of(outcome):
        for block_id, (since, until) in history.blocked.items():
            if not since < change.at < until or block_id not in blocks:
                continue
            spec = read_spec(history.jobs[execution.job_id].spec_json)
            host = history.hosts[execution.host_id]
            if matches(blocks[block_id], host, spec.command_type, {}):
                yield f"{change.id} was offered to {host.name} at {change.at:.1f} in spite of {block_id}"


def jobs_count_each_host_once(outcome: Outcome) -> Iterator[str]:
    """Every job has ended, and its counts are those of its executions."""
    history, kinds = outcome.record.fleet, kinds_of(outcome)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for id, kind in kinds.items():
        found[history.executions[id].job_id][_merged(kind)] += 1
    for job in history.jobs.values():
        if job.finished_at is None:
            yield f"{job.id} is still {job.status}"
            continue
        counts: Counter[str] = Counter()
        for name, n in msgspec.json.decode(job.counts_json, type=dict[str, int]).items():
            counts[_merged(K(name))] += n
        if counts != found[job.id] or counts.total() != job.hosts:
            yield f"{job.id} counted {dict(counts)}, its {job.hosts} hosts are {dict(found[job.id])}"


def _merged(kind: K) -> str:
    return "cancelled" if kind in CANCELLED else kind.value


def slots_are_let_go(outcome: Outcome) -> Iterator[str]:
    """At quiescence every host has proved that nothing runs on it."""
    for resource, token, execution in outcome.record.fleet.slots:
        if execution is not None:
            yield f"{resource} is still held by {execution} under token {token}"


def external_ids_are_one_job(outcome: Outcome) -> Iterator[str]:
    for external_id, jobs in outcome.record.fleet.made.items():
        if len(jobs) > 1:
            yield f"{external_id} made {len(jobs)} jobs"
