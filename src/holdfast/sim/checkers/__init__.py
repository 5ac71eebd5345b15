"""The laws, as functions over what a run has left behind. Each gives the ways in which it was broken.

To add one: write a function from `Outcome` to complaints in the file of its subject, and a line in `CHECKERS`
that says which law it watches (docs/explanation/proof.md tells how to add a node or a fault).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.sim.checkers import (
    attempts,
    families,
    feed,
    limits,
    locks,
    orders,
    running,
    starts,
    tasks,
)
from holdfast.sim.outcome import Outcome

Check = Callable[[Outcome], Iterator[str]]

CHECKERS: Final[dict[str, Check]] = {
    "acknowledged writes survive": tasks.acknowledged_survives,
    "restart equals the state before": tasks.a_restart_changes_nothing,
    "only what has ended is pruned": tasks.only_what_has_ended_is_pruned,
    "everything comes to rest": tasks.all_comes_to_rest,
    "no illegal transition, terminal is final": tasks.transitions_are_legal,
    "versions count on": tasks.versions_count_on,
    "fences rise": tasks.fences_rise,
    "at most one effective runner": tasks.one_effective_runner,
    "the feed is contiguous, nothing twice": feed.feed_is_whole,
    "no change without its event": feed.changes_have_their_events,
    "the feed adds up to the rows": feed.the_feed_adds_up_to_the_rows,
    "one task for an idempotency key": tasks.one_task_for_a_key,
    "limits are exact": limits.limits_hold,
    "a task has the rules of its type": limits.a_task_has_the_rules_of_its_type,
    "no worker idles beside a task that may run": running.no_worker_idles_beside_work,
    "a task does not run beside itself": running.a_task_does_not_run_beside_itself,
    "what runs is not given back": running.what_runs_is_not_given_back,
    "a runner that renews keeps its tasks": running.who_renews_keeps_its_tasks,
    "no node is behind the store's time": running.no_node_is_behind,
    "no loop of an engine dies": running.no_loop_dies,
    "a stop leaves nothing behind": running.a_stop_leaves_nothing_behind,
    "the store's time goes on": running.the_stores_time_goes_on,
    "nothing starts before its time": starts.nothing_starts_before_its_time,
    "the most urgent starts first": starts.the_most_urgent_starts_first,
    "nobody starves": starts.nobody_starves,
    "attempts count what failed": attempts.attempts_count_what_failed,
    "budgets of attempts and deaths hold": attempts.budgets_hold,
    "dead letters have their evidence": attempts.dead_letters_have_their_evidence,
    "dependents are settled with their parent": families.dependents_are_settled_with_their_parents,
    "who fell with a parent has a dead one": families.who_fell_with_a_parent_has_a_dead_one,
    "cron fires once": starts.cron_fires_once,
    "a yes to cancel is final": tasks.a_yes_to_cancel_is_final,
    "counters are exact": feed.counters_are_exact,
    "lock fences never interleave": locks.lock_fences_never_interleave,
    "a lease is lost before it is granted again": locks.a_lease_is_lost_before_it_is_granted_again,
    "a free lock is granted": locks.a_free_lock_is_granted,
    "a quorum has one holder": locks.a_quorum_has_one_holder,
    "an effect happens once": locks.an_effect_happens_once,
    "a key has one answer": locks.a_key_has_one_answer,
    "a cancelled call leaves its key free": locks.a_cancelled_call_leaves_its_key_free,
    "closing ends every wait": locks.closing_ends_every_wait,
    "acknowledged orders survive": orders.acknowledged_orders_survive,
    "a restart finds the orders": orders.a_restart_finds_the_orders,
    "an order acts once": orders.an_order_acts_once,
    "both books agree": orders.both_books_agree,
    "a freeze is final for its epoch": orders.a_freeze_is_final_for_its_epoch,
    "memory is let go": tasks.memory_is_let_go,
    "memory stays bounded": running.memory_stays_bounded,
    "nothing is left uncaught": tasks.nothing_is_left_uncaught,
}


def judge(outcome: Outcome) -> dict[str, list[str]]:
    """The laws that were broken, with how."""
    found = {law: list(check(outcome)) for law, check in CHECKERS.items()}
    return {law: complaints for law, complaints in found.items() if complaints}
