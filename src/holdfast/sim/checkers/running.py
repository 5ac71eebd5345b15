"""What is seen while the cluster works: idle workers, runs beside each other, time and memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from holdfast.sim.checkers.attempts import FREE
from holdfast.sim.outcome import Outcome
from holdfast.sim.server import Change


def no_worker_idles_beside_work(outcome: Outcome) -> Iterator[str]:
    """See `sim.watch` for how long a task may wait."""
    yield from outcome.record.idle


def a_task_does_not_run_beside_itself(outcome: Outcome) -> Iterator[str]:
    """In one process; before a task is run again there, an older run has been told to stop."""
    yield from outcome.record.overlaps


def the_stores_time_goes_on(outcome: Outcome) -> Iterator[str]:
    """Whatever was done to clocks: what is due becomes due, leases of the dead end."""
    yield from outcome.record.stopped_clocks


def who_renews_keeps_its_tasks(outcome: Outcome) -> Iterator[str]:
    """A clock that is set, or another node's trouble, costs no living runner a death; but where a process
    that starts at that moment is the judge, or the clock jumps twice in half a minute."""
    yield from outcome.record.false_deaths


def no_node_is_behind(outcome: Outcome) -> Iterator[str]:
    """Leases are written and judged by it; also by a machine that has just woken."""
    yield from outcome.record.clock_lags


def no_loop_dies(outcome: Outcome) -> Iterator[str]:
    """One row that cannot be dealt with harms itself only. Nor does a loop meet an error that it did not
    foresee."""
    yield from outcome.record.loop_errors


def a_stop_leaves_nothing_behind(outcome: Outcome) -> Iterator[str]:
    yield from outcome.record.left_behind


def memory_stays_bounded(outcome: Outcome) -> Iterator[str]:
    yield from outcome.record.oversized


def what_runs_is_not_given_back(outcome: Outcome) -> Iterator[str]:
    """A run that began ends, fails, dies or is stopped: a release would let it begin again unnoticed."""
    ran = {(run.task_id, run.fence): run.life for run in outcome.record.runs}
    told = defaultdict(list)
    for event in outcome.events:
        if event.kind in FREE:
            told[event.task_id].append(event)
    last: dict[str, Change] = {}
    for change in outcome.history:
        before = last.get(change.id)
        last[change.id] = change
        went_back = before is not None and (change.was, change.status) == ("running", "queued")
        if not went_back or before is None or before.attempts - change.attempts != 1:
            continue
        if not told[change.id]:
            return  # The feed is not whole, which is for another law to say.
        event = told[change.id].pop(0)
        life = ran.get((change.id, change.before_fence))
        if event.kind == "task.released" and life and not _is_over(outcome, life, change.at):
            yield (
                f"{change.id} ran under fence {change.before_fence} on {life} and was given back "
                f"at {change.at:.3f}: {event.data['reason']}"
            )


def _is_over(outcome: Outcome, life: str, at: float) -> bool:
    """Whether the process was dead, or about to stop: what it cannot end then, it gives back."""
    record = outcome.record
    return min(record.died.get(life, at), record.stopping.get(life, at)) < at
