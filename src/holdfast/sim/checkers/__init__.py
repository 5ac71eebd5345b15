"""The laws: functions over the outcome of a run that yield violations.

To add one, write a function from `Outcome` to complaints in the module of its subject, and a line in
`CHECKERS` with the name of the law. docs/explanation/proof.md describes how to add a node or a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.sim.checkers import (
    attempts,
    families,
    feed,
    fleet,
    hub,
    limits,
    live,
    locks,
    running,
    starts,
    tasks,
)
from holdfast.sim.orders import checker as orders
from holdfast.sim.outcome import Outcome

Check = Callable[[Outcome], Iterator[str]]

CHECKERS: Final[dict[str, Check]] = {
    "acknowledged writes survive": tasks.acknowledged_survives,
    "restart equals the state before": tasks.restart_preserves_state,
    "only what has ended is pruned": tasks.only_ended_tasks_are_pruned,
    "everything comes to rest": tasks.all_tasks_end,
    "no illegal transition, terminal is final": tasks.transitions_are_legal,
    "versions count on": tasks.versions_increase,
    "fences rise": tasks.fences_increase,
    "at most one effective runner": tasks.one_effective_runner,
    "the feed is contiguous, nothing twice": feed.feed_is_contiguous,
    "no change without its event": feed.changes_have_events,
    "the feed adds up to the rows": feed.feed_matches_rows,
    "one task for an idempotency key": tasks.one_task_for_a_key,
    "limits are exact": limits.limits_hold,
    "a task has the rules of its type": limits.tasks_have_the_rules_of_their_type,
    "no worker idles beside a task that may run": running.no_worker_idles_while_tasks_are_ready,
    "a task does not run beside itself": running.no_overlapping_runs,
    "what runs is not given back": running.running_tasks_are_not_released,
    "a runner that renews keeps its tasks": running.renewing_runners_keep_their_tasks,
    "no node is behind the store's time": running.no_clock_lag,
    "no loop of an engine dies": running.no_loop_dies,
    "a stop leaves nothing behind": running.stop_leaves_no_running_task,
    "the store's time goes on": running.store_time_advances,
    "nothing starts before its time": starts.no_start_before_due,
    "the most urgent starts first": starts.starts_follow_priority,
    "no task starves": starts.no_starvation,
    "attempts count what failed": attempts.attempts_count_failures,
    "budgets of attempts and deaths hold": attempts.budgets_hold,
    "dead letters have their evidence": attempts.dead_letters_have_a_reason,
    "dependents are settled with their parent": families.dependents_settle_with_parents,
    "a task that failed with a parent has a dead one": families.failed_dependents_have_a_dead_parent,
    "an intervention is applied at most once": live.interventions_end_once,
    "a decided task resumes": live.decided_tasks_resume,
    "a watcher sees each event once": hub.watchers_see_each_event_once,
    "a report is applied once": hub.reports_apply_once,
    "a stale runner has no effect": hub.stale_runners_have_no_effect,
    "replicas equal the server": hub.replicas_equal_the_server,
    "an intervention reaches an end": hub.interventions_reach_an_end,
    "a decision is answered once": hub.decisions_are_answered_once,
    "a host runs one command at a time": fleet.hosts_run_one_command_at_a_time,
    "a token starts once": fleet.tokens_start_once,
    "a command starts once": fleet.commands_start_once,
    "an execution has one true outcome": fleet.outcomes_are_true,
    "no result is lost": fleet.no_result_is_lost,
    "a shown status never goes back": fleet.statuses_never_go_back,
    "a rollout keeps its window": fleet.rollouts_keep_their_window,
    "a halt is final": fleet.halts_are_final,
    "nothing starts without its approval": fleet.nothing_starts_unapproved,
    "a blocked host gets nothing": fleet.blocked_hosts_get_nothing,
    "a job counts each host once": fleet.jobs_count_each_host_once,
    "a slot is let go": fleet.slots_are_let_go,
    "an external id is one job": fleet.external_ids_are_one_job,
    "cron fires once": starts.cron_fires_once,
    "a yes to cancel is final": tasks.cancel_is_final,
    "counters are exact": feed.counters_are_exact,
    "lock fences never interleave": locks.lock_fences_never_interleave,
    "a lease is lost before it is granted again": locks.leases_do_not_overlap,
    "a free lock is granted": locks.free_locks_are_granted,
    "a quorum has one holder": locks.quorum_has_one_holder,
    "an effect happens once": locks.effects_happen_once,
    "a key has one answer": locks.keys_have_one_answer,
    "a cancelled call leaves its key free": locks.cancelled_calls_free_their_key,
    "closing ends every wait": locks.close_ends_waits,
    "acknowledged orders survive": orders.acknowledged_orders_survive,
    "a restart finds the orders": orders.restart_recovers_orders,
    "an order acts once": orders.orders_act_once,
    "both books agree": orders.books_agree,
    "a freeze is final for its epoch": orders.freeze_is_final_for_its_epoch,
    "memory is let go": tasks.memory_is_released,
    "memory stays bounded": running.memory_stays_bounded,
    "nothing is left uncaught": tasks.no_uncaught_errors,
}


def judge(outcome: Outcome) -> dict[str, list[str]]:
    """The broken laws with their complaints."""
    results = {law: list(check(outcome)) for law, check in CHECKERS.items()}
    return {law: complaints for law, complaints in results.items() if complaints}
