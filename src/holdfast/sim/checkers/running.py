"""Laws about the running cluster: idle workers, overlapping runs, store time, memory."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.engine.owned_run import CUT_OFF_REASON
from holdfast.sim.checkers.attempts import is_free
from holdfast.sim.handler_outcomes import EXTERNAL
from holdfast.sim.outcome import Outcome
from holdfast.sim.server import RUN, Change


def no_worker_idles_while_tasks_are_ready(outcome: Outcome) -> Iterator[str]:
    """`sim.observer` defines how long a ready task may wait."""
    yield from outcome.record.idle


def no_overlapping_runs(outcome: Outcome) -> Iterator[str]:
    """Checked within one process: before a task runs again, its older run was asked to stop."""
    yield from outcome.record.overlaps


def store_time_advances(outcome: Outcome) -> Iterator[str]:
    """After any clock fault tasks become due and leases expire."""
    yield from outcome.record.stopped_clocks


def renewing_runners_keep_their_tasks(outcome: Outcome) -> Iterator[str]:
    """A clock step or the fault of another node never counts as the death of a live runner. Exceptions: the
    sweeping process has just started, or the clock jumped twice within half a minute."""
    yield from outcome.record.false_deaths


def no_clock_lag(outcome: Outcome) -> Iterator[str]:
    """Leases are written and judged by store time, also on a machine that has just woken."""
    yield from outcome.record.clock_lags


def no_loop_dies(outcome: Outcome) -> Iterator[str]:
    """A bad row affects only itself; no loop dies or catches an unexpected error."""
    yield from outcome.record.loop_errors


def stop_leaves_no_running_task(outcome: Outcome) -> Iterator[str]:
    yield from outcome.record.left_behind


def memory_stays_bounded(outcome: Outcome) -> Iterator[str]:
    yield from outcome.record.oversized


def running_tasks_are_not_released(outcome: Outcome) -> Iterator[str]:
    """A task is not released once its handler has started: a release returns the attempt. Exception: a
    remote worker could not renew its lease and has cancelled the handler."""
    ran = {(run.task_id, run.fence): run.life for run in outcome.record.runs}
    returned = {(e.task_id, e.version): e for e in outcome.events if is_free(e)}
    last: dict[str, Change] = {}
    for change in outcome.history:
        before = last.get(change.id)
        last[change.id] = change
        went_back = before is not None and change.was in RUN and change.status == "queued"
        if not went_back or before is None or before.attempts - change.attempts != 1:
            continue
        event = returned.get((change.id, change.version))
        if event is None:
            continue  # An operator resumed a stuck task; or no event, which another law reports.
        life = ran.get((change.id, change.before_fence))
        if "actor" in event.data or change.type == EXTERNAL:
            continue  # An operator took it away, or an offline node gave it back.
        if event.data.get("reason") == CUT_OFF_REASON:
            continue
        if event.kind == "task.released" and life and not _is_over(outcome, life, change.at):
            yield (
                f"{change.id} ran under fence {change.before_fence} on {life} and was released "
                f"at {change.at:.3f}: {event.data['reason']}"
            )


def _is_over(outcome: Outcome, life: str, at: float) -> bool:
    """Whether the process was dead or stopping: it may release tasks then."""
    record = outcome.record
    return min(record.died.get(life, at), record.stopping.get(life, at)) < at
