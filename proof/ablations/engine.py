"""Safeguards of the engine and of the task store."""

from __future__ import annotations

from typing import Any, Final

from holdfast.core import decide as deciding, limit
from holdfast.engine import dispatcher, sweeper
from holdfast.queue.tasks import Tasks
from holdfast.store.fast import finish, sqlite as shortcuts
from holdfast.store.script import Script
from holdfast.store.scripts import apply, cascade, insert, work
from holdfast.store.sqlite import connection
from proof.ablations.swap import SOON, Ablation, Swap, statement

BITTEN: Final = (*SOON, ("cascade_batch", "1"), ("children", "4"))


def _fence() -> list[Swap]:
    def unfenced(task: Any, order: Any, now: float) -> Any:
        rule = deciding._RUNNER.get(type(order.command))
        if rule is not None:
            return rule(task, order.command, now)
        return decide(task, order, now)

    decide = deciding.decide
    swaps = statement(
        "complete_plain",
        (
            "t.id = r.id AND t.fence = r.fence AND t.version = r.version AND t.status = 'running'",
            "t.id = r.id",
        ),
    )
    return [*swaps, (apply, "decide", unfenced), (finish, "decide", unfenced)]


def _claims_by_fence() -> list[Swap]:
    return statement("take_rows", ("fence = fence + 1,", ""))


def _feed_record() -> list[Swap]:
    def silent(*_: Any) -> Script[None]:
        yield from ()

    return [(shortcuts, "record", silent)]


def _idempotency() -> list[Swap]:
    def unasked(group: Any) -> Script[Any]:
        yield from ()
        return {}, list(group)

    swaps = statement("insert_tasks", ("r.idempotency_key", "NULL"))
    return [*swaps, (insert, "_answer_repeats", unasked)]


def _dependents() -> list[Swap]:
    def unsettled(_: work.Work, left: int) -> Script[int]:
        yield from ()
        return left

    plain = statement("complete_plain", ("AND t.has_dependents = 0 ", ""))
    return [*plain, (cascade, "settle_dependents", unsettled)]


def _batches() -> list[Swap]:
    def forget(work: work.Work, _: Any) -> Script[None]:
        work.is_cut_short = True
        yield from ()

    return [(cascade, "_leave", forget)]


def _limits() -> list[Swap]:
    return [(limit, "permits", lambda *_: float("inf"))]


def _cron() -> list[Swap]:
    return statement("take_schedule", ("AND next_at = :seen ", ""))


def _expiry() -> list[Swap]:
    async def never(_: Any) -> float:
        return 3600.0

    return [(sweeper.Sweeper, "tick", never)]


def _aborts() -> list[Swap]:
    async def yes(*_: Any, **__: Any) -> bool:
        return True

    return [(Tasks, "cancel", yes)]


def _counting() -> list[Swap]:
    def uncounted(*_: Any) -> str:
        return "[]"

    return [(work, "deltas_json", uncounted)]


def _wakes() -> list[Swap]:
    """Neither hints nor polls wake an idle dispatcher."""

    def long(*_: Any) -> float:
        return 1e7

    def deaf(*_: Any, **__: Any) -> None:
        return

    return [
        (dispatcher.Dispatcher, "_pause", long),
        (dispatcher.Dispatcher, "wake", deaf),
        (dispatcher.Dispatcher, "hinted", deaf),
    ]


def _sync() -> list[Swap]:
    def unsynced(path: str, **options: Any) -> Any:
        made = connect(path, **options)
        made.execute("PRAGMA synchronous = OFF")
        return made

    connect = connection.connect
    return [(connection, "connect", unsynced)]


ENGINE: Final = (
    Ablation("fence", "a runner that lost its lease may end the task", _fence),
    Ablation("new-fence", "a claim keeps the fence of the runner before", _claims_by_fence),
    Ablation("event", "changes of rows without their events", _feed_record),
    Ablation("idempotency", "a repeated request counts as a new one", _idempotency),
    Ablation("dependents", "children are not settled with their parents", _dependents, SOON),
    Ablation("batches", "the rest of a cascade after its first batch is dropped", _batches, BITTEN),
    Ablation("limits", "limits admit every task", _limits),
    Ablation("cron", "every instance fires a schedule that is due", _cron),
    Ablation("expiry", "expired leases are not swept", _expiry, SOON),
    Ablation("abort", "an abort is acknowledged and not done", _aborts),
    Ablation("counting", "changes do not move the counters", _counting),
    Ablation("sync", "commits are acknowledged before they are on the disk", _sync),
    Ablation("wake", "an idle dispatcher stays idle", _wakes),
)
