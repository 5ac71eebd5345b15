"""Ways of recovery, counted from what a run left behind: a campaign that never recovered proves little.

To add one: a line in `RECOVERIES` with the counter that proves it, met by the trace or counted here.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from holdfast.sim.outcome import Outcome
from holdfast.sim.server import PRUNED, Change, Left

RECOVERIES: Final = {
    "taken-back": "a lease ended and the task went back into the queue",
    "given-to-another": "a task whose runner died was claimed by another node",
    "redelivered": "a task whose node crashed ran again",
    "late-refused": "a runner that had lost its task came with a result, which was refused",
    "retried": "a failed attempt was tried again",
    "buried": "a task became a dead letter",
    "replayed": "a dead letter got new attempts",
    "cascade-continued": "dependents that a transaction had left were told by a later one",
    "cascade-taken-over": "the same by another process, after a crash of the one that had left them",
    "pruned": "a finished task was forgotten",
    "unanswered-but-durable": "a commit without an answer was there after a power loss",
    "feed-resumed": "a subscriber that had crashed went on where it was",
    "lock-taken-over": "the lock of one who died was granted to another",
    "fenced": "a write under an old fence was refused",
    "ledger-taken-over": "an effect was taken over from one who died",
    "ledger-refused-another-request": "another request under a known key was refused",
    "redlock store-unavailable": "without a majority of lock servers nothing was granted",
    "redlock lease-lost": "a lock on a quorum was lost and its holder told",
    "lock-server-forgot": "a lock server restarted without its memory",
    "orders-recovered": "an execution loop settled its orders after a restart",
    "orders-recovered-from-log": "the order store read its log",
    "orders-recovered-from-snapshot": "the order store read its snapshot",
    "orders-recovered-torn-tail": "the order store took off a write that was cut off",
    "orders-reopened": "the order store was opened again after a failed write",
    "orders-unanswered-but-durable": "an order without an answer was there after a crash",
    "orders-never-arrived": "an order that never arrived was closed",
    "orders-found-filled": "fills were found that nobody had told of",
    "orders-replayed": "a repeated wish was answered, not placed",
    "orders-old-fill": "a fill that was told again was no news",
    "orders-interrupted": "an order store was interrupted in a call and opened again",
    "orders-adapter-raised": "an adapter's error was taken for silence",
    "orders-found-filled_short": "an order was filled with less than was ordered",
    "orders-wish-refused": "an order was refused because a freeze was asked for",
    "fill-while-down": "an order was filled while its trader was down",
}


def recoveries(outcome: Outcome) -> Counter[str]:
    """What the trace met, and what the history and the feed tell beside it."""
    found = Counter(outcome.trace.seen)
    kinds = Counter(event.kind for event in outcome.events)
    found["late-refused"] = kinds["task.late"]
    found["retried"] = sum(
        event.kind == "task.failed" and bool(event.data.get("will_retry"))
        for event in outcome.events
    )
    found["buried"] = kinds["task.dead"]
    found["replayed"] = kinds["task.replayed"]
    _from_rows(outcome.history, found)
    _from_runs(outcome, found)
    _from_cascades(outcome, found)
    return found


def _from_rows(history: list[Change], found: Counter[str]) -> None:
    last: dict[str, Change] = {}
    lost_by: dict[str, str | None] = {}
    for change in history:
        before = last.get(change.id)
        last[change.id] = change
        if before is None:
            continue
        found["pruned"] += change.status == PRUNED
        if change.deaths > before.deaths and change.status == "queued":
            found["taken-back"] += 1
            lost_by[change.id] = before.node
        elif change.status == "running" and change.was == "queued" and change.id in lost_by:
            found["given-to-another"] += change.node != lost_by.pop(change.id)


def _from_runs(outcome: Outcome, found: Counter[str]) -> None:
    died = outcome.record.died
    last: dict[str, str] = {}
    for run in outcome.record.runs:
        life = last.get(run.task_id)
        found["redelivered"] += life is not None and life != run.life and life in died
        last[run.task_id] = run.life


def _from_cascades(outcome: Outcome, found: Counter[str]) -> None:
    """Each is counted when nothing of it is left."""
    begun: dict[str, Left] = {}
    for left in outcome.left:
        for parent_id in sorted(begun.keys() - left.parents):
            first = begun.pop(parent_id)
            found["cascade-continued"] += 1
            found["cascade-taken-over"] += any(
                first.at <= at <= left.at and life.partition("#")[0] == first.by
                for life, at in outcome.record.died.items()
            )
        begun |= {each: left for each in left.parents if each not in begun}
