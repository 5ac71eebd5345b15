"""The laws, as functions over what a run has left behind. Each gives the ways in which it was broken.

To add one: write a function from `Outcome` to complaints, and a line in `CHECKERS` that says which law it
watches (docs/explanation/proof.md tells how to add a node or a fault).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from holdfast.core.task import ENDED, TERMINAL, TRANSITIONS, Status
from holdfast.sim.primitives import PAID
from holdfast.sim.record import Belief
from holdfast.sim.server import Change
from holdfast.sim.workload import CONCURRENCY, RATE, RATE_SECONDS, TICK, TICK_SECONDS
from holdfast.sim.world import Outcome

Check = Callable[[Outcome], Iterator[str]]


def acknowledged_survives(outcome: Outcome) -> Iterator[str]:
    """What a client was told is in the store, is."""
    for ack in outcome.record.acks:
        if ack.task_id not in outcome.tasks:
            yield f"{ack.task_id} ({ack.type}) was acknowledged at {ack.at:.3f} and is gone"


def a_restart_changes_nothing(outcome: Outcome) -> Iterator[str]:
    """After a power loss the store is what it was, for all that was acknowledged."""
    yield from outcome.lost


def all_comes_to_rest(outcome: Outcome) -> Iterator[str]:
    """Once the faults are over, everything ends."""
    for task in outcome.unfinished:
        yield f"{task.id} ({task.type}) is still {task.status}"


def transitions_are_legal(outcome: Outcome) -> Iterator[str]:
    """Only along the table of the state machine; terminal is final."""
    for change in outcome.history:
        if change.was is None:
            continue
        was, status = Status(change.was), Status(change.status)
        if was is not status and status not in TRANSITIONS[was]:
            yield f"{change.id} went from {was} to {status}"
        if was in TERMINAL:
            yield f"{change.id} was {was} and changed"


def versions_count_on(outcome: Outcome) -> Iterator[str]:
    """Every change is written over the state that was seen, and each rises the version."""
    versions: dict[str, int] = {}
    for change in outcome.history:
        if change.was is not None and change.before_version != versions.get(change.id):
            yield f"{change.id} was written over version {change.before_version}"
        if change.version <= change.before_version:
            yield f"{change.id} went from version {change.before_version} to {change.version}"
        versions[change.id] = change.version


def fences_rise(outcome: Outcome) -> Iterator[str]:
    """A claim has a new fence; nothing takes one back."""
    for change in outcome.history:
        if change.fence < change.before_fence:
            yield f"{change.id}: fence {change.before_fence} became {change.fence}"
        if (
            change.was == "queued"
            and change.status == "running"
            and change.fence == change.before_fence
        ):
            yield f"{change.id} was claimed under the old fence {change.fence}"


def one_effective_runner(outcome: Outcome) -> Iterator[str]:
    """However many believe that they run a task, one of them ends it, and it did run."""
    ran = {(run.task_id, run.fence) for run in outcome.record.runs}
    ended: Counter[tuple[str, int]] = Counter()
    for change in outcome.history:
        if change.was == "running" and change.status == "completed":
            ended[change.id, change.before_fence] += 1
            if (change.id, change.before_fence) not in ran:
                yield f"{change.id} was completed under fence {change.before_fence} that never ran"
    for (task_id, fence), times in ended.items():
        if times > 1:
            yield f"{task_id} was completed {times} times under fence {fence}"


def feed_is_whole(outcome: Outcome) -> Iterator[str]:
    """Offsets without gaps, nothing twice; a reader that comes and goes sees just that."""
    offsets = [event.position.offset for event in outcome.events]
    if offsets != list(range(1, len(offsets) + 1)):
        yield f"the feed is not contiguous: {len(offsets)} events up to {offsets[-1:]}"
    positions = [str(event.position) for event in outcome.events]
    for name, seen in outcome.record.seen.items():
        if seen != positions[: len(seen)]:
            yield f"{name} saw another feed: {len(seen)} events"


ENDS: Final = {
    "completed": "task.completed",
    "failed": "task.dead",
    "aborted": "task.aborted",
}


def changes_have_their_events(outcome: Outcome) -> Iterator[str]:
    """No state without its event: as many ends in the feed as in the rows, for each task."""
    rows = Counter(
        (c.id, ENDS[c.status]) for c in outcome.history if c.status in ENDS and c.was != c.status
    )
    told = Counter((e.task_id, e.kind) for e in outcome.events if e.kind in ENDS.values())
    for key in rows.keys() | told.keys():
        if rows[key] != told[key]:
            yield f"{key[0]}: {key[1]} is {told[key]} times in the feed, {rows[key]} times in the rows"
    claims = Counter(c.id for c in outcome.history if c.was == "queued" and c.status == "running")
    starts = Counter(e.task_id for e in outcome.events if e.kind == "task.started")
    for task_id in claims.keys() | starts.keys():
        if claims[task_id] != starts[task_id]:
            yield f"{task_id} was claimed {claims[task_id]} times, the feed says {starts[task_id]}"


def one_task_for_a_key(outcome: Outcome) -> Iterator[str]:
    """A repeated request is answered with the task that it made."""
    for key, ids in outcome.record.keys.items():
        if len(ids) > 1:
            yield f"key {key} was answered with {sorted(ids)}"
    keys = Counter(task.idempotency_key for task in outcome.tasks.values() if task.idempotency_key)
    for key, n in keys.items():
        if n > 1:
            yield f"key {key} made {n} tasks"


def limits_hold(outcome: Outcome) -> Iterator[str]:
    """Never more at once than allowed, in no window more starts than allowed."""
    running: set[str] = set()
    starts: list[float] = []
    for change in outcome.history:
        if change.type == "limited":
            running.add(change.id) if change.status == "running" else running.discard(change.id)
            if len(running) > CONCURRENCY:
                yield f"{len(running)} limited tasks run at {change.at:.3f}"
        if change.type == "rated" and change.was == "queued" and change.status == "running":
            starts.append(change.started_at or 0.0)
    starts.sort()
    for first, last in zip(starts, starts[RATE:], strict=False):
        if last - first < RATE_SECONDS - 1e-3:
            yield f"{RATE + 1} rated tasks started within {last - first:.3f} s"


def dependents_are_settled_with_their_parents(outcome: Outcome) -> Iterator[str]:
    """When the last parent has ended, no child waits any longer: not even for a moment."""
    parents: dict[str, list[str]] = defaultdict(list)
    children: dict[str, list[str]] = defaultdict(list)
    for child, parent in outcome.edges:
        parents[child].append(parent)
        children[parent].append(child)
    status: dict[str, str] = {}
    for group in _transactions(outcome.history):
        touched: set[str] = set()
        for change in group:
            status[change.id] = change.status
            touched.add(change.id)
            touched.update(children[change.id])
        for task_id in touched:
            if status.get(task_id) == "blocked" and parents[task_id]:
                waits = [p for p in parents[task_id] if Status(status[p]) not in ENDED]
                if not waits:
                    yield f"{task_id} is blocked at {group[0].at:.3f} though all its parents have ended"


def _transactions(history: list[Change]) -> Iterator[list[Change]]:
    group: list[Change] = []
    for change in history:
        if group and group[0].transaction != change.transaction:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def cron_fires_once(outcome: Outcome) -> Iterator[str]:
    """Whatever the number of instances: one task for a moment of the schedule."""
    slots = Counter(
        int(task.created_at // TICK_SECONDS) for task in outcome.tasks.values() if task.type == TICK
    )
    for slot, n in slots.items():
        if n > 1:
            yield f"the schedule fired {n} times for its moment {slot}"


def a_yes_to_cancel_is_final(outcome: Outcome) -> Iterator[str]:
    for task_id in sorted(outcome.record.aborted):
        task = outcome.tasks.get(task_id)
        if task is None or task.status is not Status.ABORTED:
            yield f"{task_id}: cancel said yes, yet it is {task.status if task else 'gone'}"


def counters_are_exact(outcome: Outcome) -> Iterator[str]:
    """The kept figures are what a count of the rows gives."""
    counted = Counter(
        (t.queue, t.type, int(t.priority), t.status.value) for t in outcome.tasks.values()
    )
    kept = {(q, t, p, s): n for q, t, p, s, n in outcome.counters if n}
    if kept != counted:
        differing = {
            key for key in kept.keys() | counted.keys() if kept.get(key, 0) != counted[key]
        }
        yield f"counters differ at {sorted(differing)[:3]}"


def lock_fences_never_interleave(outcome: Outcome) -> Iterator[str]:
    """What the store took under a lock came from holders in the order of their fences."""
    newest: dict[str, int] = {}
    for resource, fence in outcome.record.accepted:
        if fence < newest.get(resource, 0):
            yield f"{resource}: a write under fence {fence} after one under {newest[resource]}"
        newest[resource] = max(fence, newest.get(resource, 0))


def a_lease_is_lost_before_it_is_granted_again(outcome: Outcome) -> Iterator[str]:
    """Two holders at a time only where one of them was frozen, or the store's own clock was set forward."""
    if "step" in outcome.plan.faults:
        return
    record = outcome.record
    by_resource: dict[str, list[Belief]] = defaultdict(list)
    for belief in record.beliefs:
        by_resource[belief.resource].append(belief)
    for resource, beliefs in by_resource.items():
        ordered = sorted(beliefs, key=lambda belief: belief.fence)
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


def memory_is_let_go(outcome: Outcome) -> Iterator[str]:
    """At rest nobody holds anything."""
    for node, held in outcome.held.items():
        if held:
            yield f"{node} still holds {held} tasks"


def nothing_is_left_uncaught(outcome: Outcome) -> Iterator[str]:
    yield from outcome.failures


CHECKERS: Final[dict[str, Check]] = {
    "acknowledged writes survive": acknowledged_survives,
    "restart equals the state before": a_restart_changes_nothing,
    "everything comes to rest": all_comes_to_rest,
    "no illegal transition, terminal is final": transitions_are_legal,
    "versions count on": versions_count_on,
    "fences rise": fences_rise,
    "at most one effective runner": one_effective_runner,
    "the feed is contiguous, nothing twice": feed_is_whole,
    "no change without its event": changes_have_their_events,
    "one task for an idempotency key": one_task_for_a_key,
    "limits are exact": limits_hold,
    "dependents are settled with their parent": dependents_are_settled_with_their_parents,
    "cron fires once": cron_fires_once,
    "a yes to cancel is final": a_yes_to_cancel_is_final,
    "counters are exact": counters_are_exact,
    "lock fences never interleave": lock_fences_never_interleave,
    "a lease is lost before it is granted again": a_lease_is_lost_before_it_is_granted_again,
    "an effect happens once": an_effect_happens_once,
    "memory is let go": memory_is_let_go,
    "nothing is left uncaught": nothing_is_left_uncaught,
}


def judge(outcome: Outcome) -> dict[str, list[str]]:
    """The laws that were broken, with how."""
    found = {law: list(check(outcome)) for law, check in CHECKERS.items()}
    return {law: complaints for law, complaints in found.items() if complaints}
