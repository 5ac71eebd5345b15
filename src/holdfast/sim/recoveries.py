"""Counts recoveries in the outcome of a run: a campaign without recoveries proves little.

To add one, write a line in `RECOVERIES` with its counter, and count it in the trace or here.
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
    "late-refused": "a runner that had lost its task sent a result, which was refused",
    "retried": "a failed attempt was retried",
    "buried": "a task became a dead letter",
    "replayed": "a dead letter got new attempts",
    "cascade-continued": "dependents left by one transaction were settled by a later one",
    "cascade-taken-over": "the same by another process, after the first one crashed",
    "pruned": "a finished task was pruned",
    "unanswered-but-durable": "a commit without an answer was durable after a power loss",
    "feed-resumed": "a crashed subscriber resumed at its position",
    "watch-resumed": "a crashed watcher resumed at its position, at any gateway",
    "connection-reset": "a connection to a gateway was reset, and the client connected again",
    "offline-refused": "an offline node adopted the server's state after a refused push",
    "lock-taken-over": "the lock of a dead holder was granted to another",
    "fenced": "a write under an old fence was refused",
    "ledger-taken-over": "an entry of a dead caller was taken over",
    "ledger-refused-another-request": "another request under a known key was refused",
    "redlock store-unavailable": "without a majority of lock servers nothing was granted",
    "redlock lease-lost": "a quorum lock was lost and its holder notified",
    "lock-server-forgot": "a lock server restarted without its state",
    "orders-recovered": "an execution loop settled its orders after a restart",
    "orders-recovered-from-log": "the order store read its log",
    "orders-recovered-from-snapshot": "the order store read its snapshot",
    "orders-recovered-torn-tail": "the order store truncated a torn write",
    "orders-reopened": "the order store was opened again after a failed write",
    "orders-unanswered-but-durable": "an order without an answer was durable after a crash",
    "orders-never-arrived": "an order that never arrived was closed",
    "orders-found-filled": "fills were found that had not been reported",
    "orders-replayed": "a repeated placement was answered and not placed again",
    "orders-old-fill": "a repeated report of a fill had no effect",
    "orders-interrupted": "an order store was interrupted in a call and opened again",
    "orders-adapter-raised": "an adapter's error was treated as no answer",
    "orders-found-filled_short": "an order was filled with less than ordered",
    "orders-wish-refused": "an order was refused because of a freeze",
    "fill-while-down": "an order was filled while its trader was down",
}


def recoveries(outcome: Outcome) -> Counter[str]:
    """Counters of the trace, and those derived from row history and feed."""
    counts = Counter(outcome.trace.counts)
    kinds = Counter(event.kind for event in outcome.events)
    counts["late-refused"] = kinds["task.late"]
    counts["retried"] = sum(
        event.kind == "task.failed" and bool(event.data.get("will_retry"))
        for event in outcome.events
    )
    counts["buried"] = kinds["task.dead"]
    counts["replayed"] = kinds["task.replayed"]
    _from_rows(outcome.history, counts)
    _from_runs(outcome, counts)
    _from_cascades(outcome, counts)
    return counts


def _from_rows(history: list[Change], counts: Counter[str]) -> None:
    last: dict[str, Change] = {}
    lost_by: dict[str, str | None] = {}
    for change in history:
        before = last.get(change.id)
        last[change.id] = change
        if before is None:
            continue
        counts["pruned"] += change.status == PRUNED
        if change.deaths > before.deaths and change.status == "queued":
            counts["taken-back"] += 1
            lost_by[change.id] = before.node
        elif change.status == "running" and change.was == "queued" and change.id in lost_by:
            counts["given-to-another"] += change.node != lost_by.pop(change.id)


def _from_runs(outcome: Outcome, counts: Counter[str]) -> None:
    died = outcome.record.died
    last: dict[str, str] = {}
    for run in outcome.record.runs:
        life = last.get(run.task_id)
        counts["redelivered"] += life is not None and life != run.life and life in died
        last[run.task_id] = run.life


def _from_cascades(outcome: Outcome, counts: Counter[str]) -> None:
    """Counts each cascade when it is finished."""
    open_cascades: dict[str, Left] = {}
    for left in outcome.left:
        for parent_id in sorted(open_cascades.keys() - left.parents):
            first = open_cascades.pop(parent_id)
            counts["cascade-continued"] += 1
            counts["cascade-taken-over"] += any(
                first.at <= at <= left.at and life.partition("#")[0] == first.by
                for life, at in outcome.record.died.items()
            )
        open_cascades |= {
            parent_id: left for parent_id in left.parents if parent_id not in open_cascades
        }
