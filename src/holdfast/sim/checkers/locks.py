"""Locks and the ledger: who holds, who is let in, what happens once."""

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
"""Within which a free lock is granted to one of those who wait: dead waiters ahead cost 3 s in total, and a
hint that was lost costs a look."""


def lock_fences_never_interleave(outcome: Outcome) -> Iterator[str]:
    """What the store took under a lock came from holders in the order of their fences."""
    newest: dict[str, int] = {}
    for resource, fence in outcome.record.accepted:
        if fence < newest.get(resource, 0):
            yield f"{resource}: a write under fence {fence} after one under {newest[resource]}"
        newest[resource] = max(fence, newest.get(resource, 0))


def a_lease_is_lost_before_it_is_granted_again(outcome: Outcome) -> Iterator[str]:
    """Two holders at a time only where one of them was frozen, or the store's own clock was set forward."""
    if outcome.plan.sets_clocks:
        return
    record = outcome.record
    by_resource: dict[str, list[HolderInterval]] = defaultdict(list)
    for interval in record.holders:
        by_resource[interval.resource].append(interval)
    for resource, holders in by_resource.items():
        ordered = sorted(holders, key=lambda interval: interval.fence)
        for one, other in pairwise(ordered):
            known = [at for at in (one.until, record.died.get(one.life)) if at is not None]
            until = min(known, default=outcome.seconds)
            was_frozen = any(
                begun <= until and end >= one.since
                for begun, end in record.frozen.get(one.life, [])
            )
            if until > other.since and not was_frozen:
                yield (
                    f"{resource}: {one.life} held it until {until:.3f} (fence {one.fence}), {other.life} "
                    f"since {other.since:.3f} (fence {other.fence})"
                )


def an_effect_happens_once(outcome: Outcome) -> Iterator[str]:
    """One payment for a bill, however often it was asked for; the outside hears one id."""
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


def a_key_has_one_answer(outcome: Outcome) -> Iterator[str]:
    """Whoever repeats a call is answered alike; another request under the same key is refused."""
    for place, answers in outcome.record.answers.items():
        if len(answers) > 1:
            yield f"{place} was answered with {sorted(answers)}"
    yield from outcome.record.key_conflicts_accepted


def a_cancelled_call_leaves_its_key_free(outcome: Outcome) -> Iterator[str]:
    """A caller that is cancelled, at whichever await, leaves its key free or answered."""
    yield from outcome.record.left_open


def closing_ends_every_wait(outcome: Outcome) -> Iterator[str]:
    """Locks that are closed grant nothing, and hang on nothing but the store, for a bounded time."""
    yield from outcome.record.close_errors


def a_free_lock_is_granted(outcome: Outcome) -> Iterator[str]:
    """Once everything works again, nobody waits long for what nobody holds. A store whose clock was set back
    stands still until that has passed, and so does whoever waits for a lease to end there."""
    if outcome.plan.sets_clocks:
        return
    for wait in outcome.record.waits:
        if wait.since < outcome.healed_at + CALM_SECONDS:
            continue  # A lease of one who died may still have its time.
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


def a_quorum_has_one_holder(outcome: Outcome) -> Iterator[str]:
    """Two at a time only where one was frozen, a server's clock was set, or so many servers had forgotten
    that those left could not refuse."""
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
                if _remembering(record, one, other.since) > servers - majority(servers):
                    yield f"{resource}: {one.life} and {other.life} both held it at {other.since:.3f}"


def _end(record: Record, interval: HolderInterval, now: float) -> float:
    known = [at for at in (interval.until, record.died.get(interval.life)) if at is not None]
    return min(known, default=now)


def _was_frozen(record: Record, interval: HolderInterval, now: float) -> bool:
    until = _end(record, interval, now)
    return any(
        begun <= until and end >= interval.since
        for begun, end in record.frozen.get(interval.life, [])
    )


def _remembering(record: Record, interval: HolderInterval, now: float) -> int:
    """Servers that granted it and have not lost their memory since."""
    granted = {
        each.server: each.at
        for each in record.granted
        if each.token == interval.fence and each.at <= now
    }
    return sum(
        not any(at <= lost <= now for lost in record.restarts.get(server, []))
        for server, at in granted.items()
    )
