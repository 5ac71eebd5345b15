"""Steps of a task: across attempts, in threads, during outages of the store."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import BlockingContext, Context, Status, Task, TaskQueue
from holdfast.core.ledger import EntryLease
from holdfast.engine.pruning import PRUNE_SECONDS
from holdfast.errors import StoreUnavailable
from holdfast.primitives.idempotency import Ledger
from holdfast.testing import harness


async def test_a_step_is_answered_in_later_attempts(queue: TaskQueue) -> None:
    turns: list[EntryLease] = []

    async def pay(task: Task, ctx: Context) -> str:
        async def charge(lease: EntryLease) -> str:
            turns.append(lease)
            return f"receipt {len(turns)}"

        receipt = await ctx.once("charge", charge)
        if ctx.attempt < 3:
            raise ConnectionError("later")
        return f"{receipt}, {await ctx.once('ship', charge)}"

    queue.register_handler("pay", pay)
    async with harness(queue) as h:
        handle = await queue.enqueue("pay")
        await h.advance(100)
        assert (await handle.get()).result == "receipt 1, receipt 2"
    assert [(lease.entry_key.operation, lease.attempt) for lease in turns] == [
        ("charge", 1),
        ("ship", 1),
    ]


async def test_a_plain_handler_has_steps() -> None:
    runs: list[int] = []

    def pay(task: Task, ctx: BlockingContext) -> Any:
        def charge(lease: EntryLease) -> int:
            runs.append(ctx.attempt)
            return len(runs)

        first = ctx.once("charge", charge, request=task.payload)
        if ctx.attempt == 1:
            raise ConnectionError("later")
        return [first, ctx.once("charge", charge, request=task.payload)]

    queue = TaskQueue("sqlite://", base_retry_delay=0.01)
    queue.register_handler("pay", pay)
    async with queue:
        handle = await queue.enqueue("pay", {"amount": 5})
        assert await handle.result(10) == [1, 1]
    assert runs == [1]


@pytest.mark.parametrize("verb", ["begin", "end"])
async def test_an_outage_costs_a_step_no_attempt(
    queue: TaskQueue, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[EntryLease] = []

    async def pay(task: Task, ctx: Context) -> str:
        async def charge(lease: EntryLease) -> str:
            runs.append(lease)
            return "charged"

        return str(await ctx.once("charge", charge))

    queue.register_handler("pay", pay)
    async with harness(queue) as h:
        entries = h.engine.services.entries
        plain, failures_left = getattr(entries, verb), 3

        async def away(*args: Any, **options: Any) -> Any:
            nonlocal failures_left
            failures_left -= 1
            if failures_left >= 0:
                raise StoreUnavailable("away for a moment")
            return await plain(*args, **options)

        monkeypatch.setattr(entries, verb, away)
        handle = await queue.enqueue("pay")
        await h.advance(60)
        task = await handle.get()
    assert (task.status, task.result, task.attempts) == (Status.COMPLETED, "charged", 1)
    assert len(runs) == 1


async def test_the_sweeper_prunes_entries_of_ledgers(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        store = (await queue.open()).store
        ledger = Ledger(store, clock=h.clock, lease_seconds=1.0, retention_seconds=100.0)

        async def effect(lease: EntryLease) -> None:
            return None

        await ledger.run("s", "o", "k", 1, effect)
        await h.advance(90)
        assert await ledger.get("s", "o", "k") is not None
        await h.advance(PRUNE_SECONDS + 20)
        assert await ledger.get("s", "o", "k") is None
