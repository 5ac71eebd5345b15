"""Runs the operation of a call: as it is, as a search in its list, or as a dry run. Those that have a dry run
are in one table.

Promises: a call that is not in the table refuses a dry run before it does anything. Each call of the table is
one transaction that ends with `Call.by` or `Call.repeatable`, so that `sync/access/foresee.py` can undo it;
tests/acceptance/both_ways/ compares the whole store before and after.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.gateway.operations import (
    admin,
    bulk,
    conflicts,
    dead_change,
    decisions,
    new_tasks,
    nodes,
    projects,
    system,
    tasks,
    weights,
)
from holdfast.gateway.operations.call import Answer, Call, replayed
from holdfast.gateway.operations.fleet import (
    approvals,
    blocks,
    groups,
    hosts,
    job_control,
    webhooks,
)
from holdfast.gateway.operations.sync import nodes as sync_nodes
from holdfast.gateway.rest.route import Route
from holdfast.gateway.rest.searching import has_keys, search
from holdfast.sync.access.foresee import Foreseen, cannot_foresee

FORESEEN: Final = frozenset(
    {
        admin.pause_queue,
        admin.resume_queue,
        weights.set_weight,
        admin.put_schedule,
        admin.remove_schedule,
        admin.pause_schedule,
        admin.resume_schedule,
        admin.run_schedule,
        admin.backfill_schedule,
        admin.revoke_lock,
        approvals.approve,
        approvals.reject,
        approvals.withdraw,
        approvals.break_glass,
        approvals.review,
        blocks.add,
        blocks.change,
        blocks.lift,
        bulk.stop,
        bulk.resume,
        conflicts.settle,
        dead_change.replay,
        dead_change.discard,
        decisions.answer,
        groups.add,
        groups.change,
        groups.remove,
        hosts.add,
        hosts.change,
        hosts.remove,
        job_control.pause,
        job_control.resume,
        job_control.abort,
        job_control.promote,
        job_control.change,
        job_control.retry,
        new_tasks.submit,
        new_tasks.copy,
        nodes.cordon,
        nodes.uncordon,
        nodes.drain,
        nodes.quarantine,
        nodes.revoke,
        projects.create,
        projects.change,
        sync_nodes.register,
        system.create_token,
        system.create_join_token,
        system.rotate_token,
        system.revoke_token,
        tasks.edit,
        webhooks.add,
        webhooks.change,
        webhooks.remove,
        webhooks.rotate,
        webhooks.retire,
        webhooks.test,
        webhooks.resend,
    }
)


async def run_route(call: Call, route: Route, values: tuple[str, ...], given: Any) -> Answer:
    """The answer of a call. Of a dry run: the one that the change would get."""
    if route.items is not None:
        given = dict(given)
        q = given.pop("q")
        if q and route.text_key and not has_keys(q):
            given["q"] = q
        elif q:
            return await search(call, route, values, given, q)
    if not call.dry_run or route.method == "GET":
        return await route.handler(call, *values, **given)
    if route.handler not in FORESEEN:
        cannot_foresee()
    try:
        return await route.handler(call, *values, **given)
    except Foreseen as foreseen:
        return replayed(foreseen.answer)
