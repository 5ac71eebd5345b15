"""Laws about locks and the idempotency ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from holdfast.core.quorum import majority
from holdfast.sim.outcome import Outcome
from holdfast.sim.primitives import CALM_SECONDS, PAID
from holdfast.sim.record import HolderInterval, Record

GRANT_SECONDS: Final = 6.0
"""Time within which a free lock is granted to a waiter: dead waiters before it cost 3 s in total, and a
lost hint costs one poll."""


def lock_fences_never_interleave(outcome: Outcome) -> Iterator[str]:
    """The store accepted writes under a lock in the order of the fences."""
    newest: dict[str, int] = {}
    for resource, fence in outcome.record.accepted:
        if fence < newest.get(resource, 0):
            yield f"{resource}: a write under fence {fence} after one under {newest[resource]}"
        newest[resource] = max(fence, newest.get(resource, 0))


def leases_do_not_overlap(outcome: Outcome) -> Iterator[str]:
    """Two holders overlap only when one was frozen, or the store's clock was set forward."""
    if outcome.plan.sets_clocks:
        return
    record = outcome.record
    by_resource: dict[str, list[HolderInterval]] = defaultdict(list)
    for interval in record.holders:
        by_resource[interval.resource].append(interval)
    for resource, holders in by_resource.items():
        ordered = sorted(holders, key=lambda interval: interval.fence)
        for one, other in pairwise(ordered):
            ends = [at for at in (one.until, record.died.get(one.life)) if at is not None]
            until = min(ends, default=outcome.seconds)
            was_frozen = any(
                start <= until and end >= one.since
                for start, end in record.frozen.get(one.life, [])
            )
            if until > other.since and not was_frozen:
                yield (
                    f"{resource}: {one.life} held it until {until:.3f} (fence {one.fence}), {other.life} "
                    f"since {other.since:.3f} (fence {other.fence})"
                )


def effects_happen_once(outcome: Outcome) -> Iterator[str]:
    """A bill is paid once, with any number of requests; an external effect always has the same id."""
    paid = Counter(str(t.payload["bill"]) for t in outcome.tasks.values() if t.type == PAID)
    for bill, n in paid.items():
        if n > 1:
            yield f"{bill} was paid {n} times"
    for bill in sorted(outcome.record.paid):
        if not paid[bill]:
            yield f"{bill} was acknowledged as paid and is not"
    for bill, ids in outcome.record.outside.items():
        if len(ids) > 1:
            yield f"{bill} was tried under {len(ids)} ids"


def keys_have_one_answer(outcome: Outcome) -> Iterator[str]:
    """A repeated call gets the same answer; a different request under the same key is refused."""
    for key, answers in outcome.record.answers.items():
        if len(answers) > 1:
            yield f"{key} was answered with {sorted(answers)}"
    yield from outcome.record.key_conflicts_accepted


def cancelled_calls_free_their_key(outcome: Outcome) -> Iterator[str]:
    """A call that is cancelled at any await leaves its key free or answered."""
    yield from outcome.record.left_open


def close_ends_waits(outcome: Outcome) -> Iterator[str]:
    """Closed locks grant nothing, and close() waits for the store only, for a bounded time."""
    yield from outcome.record.close_errors


def free_locks_are_granted(outcome: Outcome) -> Iterator[str]:
    """After the fault phase a free lock is granted soon. Not checked when clocks were set: store time stands
    still after a step back, and so do leases."""
    if outcome.plan.sets_clocks:
        return
    for wait in outcome.record.waits:
        if wait.since < outcome.healed_at + CALM_SECONDS:
            continue  # The lease of a dead holder may not have expired yet.
        free_since = wait.since
        held = sorted(
            (b.since, b.until or outcome.seconds)
            for b in outcome.record.holders
            if b.resource == wait.resource
        )
        for since, until in held:
            if until <= free_since:
                continue
            if min(since, wait.until) - free_since > GRANT_SECONDS:
                break
            free_since = max(free_since, until)
        if wait.until - free_since > GRANT_SECONDS:
            yield f"{wait.life} waited from {wait.since:.3f} to {wait.until:.3f} for {wait.resource}, free"
    yield from outcome.record.ungranted


def quorum_has_one_holder(outcome: Outcome) -> Iterator[str]:
    """Two holders overlap only when one was frozen, a server's clock was set, or too many servers had lost
    their state to refuse the second."""
    if outcome.plan.sets_clocks:
        return
    record, servers = outcome.record, outcome.plan.lock_servers
    by_resource: dict[str, list[HolderInterval]] = defaultdict(list)
    for interval in record.quorum_holders:
        by_resource[interval.resource].append(interval)
    for resource, holders in by_resource.items():
        for one in holders:
            for other in holders:
                if one is other or not one.since <= other.since < _end(
                    record, one, outcome.seconds
                ):
                    continue
                if _was_frozen(record, one, outcome.seconds):
                    continue
                if _servers_with_state(record, one, other.since) > servers - majority(servers):
                    yield f"{resource}: {one.life} and {other.life} both held it at {other.since:.3f}"


def _end(record: Record, interval: HolderInterval, now: float) -> float:
    ends = [at for at in (interval.until, record.died.get(interval.life)) if at is not None]
    return min(ends, default=now)


def _was_frozen(record: Record, interval: HolderInterval, now: float) -> bool:
    until = _end(record, interval, now)
    return any(
        start <= until and end >= interval.since
        for start, end in record.frozen.get(interval.life, [])
    )


def _servers_with_state(record: Record, interval: HolderInterval, now: float) -> int:
    """Number of servers that granted the lock and have not restarted since."""
    granted = {
        grant.server: grant.at
        for grant in record.granted
        if grant.token == interval.fence and grant.at <= now
    }
    return sum(
        not any(at <= restarted_at <= now for restarted_at in record.restarts.get(server, []))
        for server, at in granted.items()
    )
