"""Calls that need a row of an open transaction: a typed answer soon, and the engine goes on.

Every wait ends with the event that it waits for; a fault makes it time out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import apsw
import asyncpg
import pytest

from holdfast import Context, Status, TaskQueue
from holdfast.errors import InProgress, InvalidInput, StoreBusy
from holdfast.primitives.idempotency import Ledger
from holdfast.store import store as stores
from holdfast.store.port import Rank
from tests.looks import look_again

CALLERS = 12
"""More than the connections of a pool."""
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


async def work(value: int = 0) -> int:
    return value


def made_queue(url: str, **options: object) -> TaskQueue:
    queue = TaskQueue(url, **options)  # type: ignore[arg-type]
    queue.task(work)
    return queue


async def pay(_turn: object) -> str:
    return "paid"


async def test_an_enqueue_whose_key_is_in_an_open_transaction_is_refused(
    pg_dsn: str, connection: Connection
) -> None:
    async with made_queue(pg_dsn) as queue, asyncio.timeout(15):
        async with connection.transaction():
            inside = await queue.enqueue("work", {}, idempotency_key="K", tx=connection)
            for answer in await all_of(lambda: queue.enqueue("work", {}, idempotency_key="K")):
                assert isinstance(answer, StoreBusy)
                assert answer.retryable
                assert "idempotency key" in str(answer)
        assert (await queue.enqueue("work", {}, idempotency_key="K")).id == inside.id


async def all_of(call: Callable[[], Awaitable[object]]) -> list[object]:
    return await asyncio.gather(*(call() for _ in range(CALLERS)), return_exceptions=True)


async def test_callers_that_wait_for_a_lock_cost_no_lease(
    pg_dsn: str, connection: Connection
) -> None:
    """Tasks are claimed, renewed and completed while more callers wait than there are connections."""
    may_end, started = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        await may_end.wait()

    queue, other = made_queue(pg_dsn, lease_seconds=1.5), TaskQueue(pg_dsn)
    queue.task(slow)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(queue)
        stack.push_async_callback(other.stop)
        task = await other.enqueue("slow")
        await started.wait()
        transaction = connection.transaction()
        await transaction.start()
        await other.enqueue("work", {}, idempotency_key="K", tx=connection)
        callers = [asyncio.create_task(knock(queue)) for _ in range(CALLERS)]
        async with asyncio.timeout(15):
            end = (await task.get()).lease_until or 0.0
            for _ in range(3):  # Three leases, each renewed.
                while (found := (await task.get()).lease_until or 0.0) <= end:
                    await look_again()
                end = found
            for n in range(3):
                assert await (await other.enqueue("work", {"value": n})).result(5) == n
        await transaction.commit()
        await asyncio.gather(*callers)
        may_end.set()
        done = await task.wait(5)
        assert (done.status, done.attempts, done.deaths) == (Status.COMPLETED, 1, 0)


async def knock(queue: TaskQueue) -> None:
    while True:
        try:
            await queue.enqueue("work", {}, idempotency_key="K")
        except StoreBusy:
            continue
        return


async def test_a_call_whose_key_is_in_an_open_transaction_is_in_progress(
    pg_dsn: str, connection: Connection
) -> None:
    ledger = Ledger.connect(pg_dsn)
    await ledger.open()
    async with asyncio.timeout(15):
        async with connection.transaction():
            await ledger.run("shop", "pay", "K", {"n": 1}, pay, tx=connection)
            for answer in await all_of(lambda: ledger.run("shop", "pay", "K", {"n": 1}, pay)):
                assert isinstance(answer, InProgress)
            assert await ledger.run("shop", "pay", "other", {"n": 1}, pay) == "paid"
        assert await ledger.run("shop", "pay", "K", {"n": 1}, pay) == "paid"
    await ledger.close()


@pytest.mark.parametrize("verb", ["progress", "save", "once"])
async def test_a_handler_reports_within_the_transaction_of_its_step(pg_dsn: str, verb: str) -> None:
    queue = made_queue(pg_dsn, default_max_attempts=1)

    async def report(ctx: Context) -> None:
        mine = await asyncpg.connect(pg_dsn)
        try:
            async with mine.transaction():
                await ctx.once("first", pay, tx=mine)
                await say(ctx, verb)
                await ctx.once("second", pay, tx=mine)
        finally:
            await mine.close()

    queue.task(report)
    async with queue:
        done = await (await queue.enqueue("report")).wait(10)
    assert done.status is Status.COMPLETED, done.error


async def say(ctx: Context, verb: str) -> None:
    match verb:
        case "progress":
            await ctx.progress(0.5)
        case "save":
            await ctx.save({"row": 7})
        case _:
            await ctx.once("beside", pay)


@pytest.mark.parametrize("verb", ["progress", "save", "once"])
async def test_one_writer_refuses_a_report_within_the_transaction_of_a_step(
    tmp_path: Path, verb: str
) -> None:
    """It would wait for its own handler's transaction; after the commit it works."""
    file = tmp_path / "queue.db"
    queue = made_queue(f"sqlite:///{file}", default_max_attempts=1)

    async def report(ctx: Context) -> None:
        mine = apsw.Connection(str(file))
        mine.set_busy_timeout(5_000)
        mine.execute("BEGIN IMMEDIATE")
        try:
            await ctx.once("first", pay, tx=mine)
            with pytest.raises(InvalidInput, match="commit"):
                await say(ctx, verb)
            mine.execute("COMMIT")
            await say(ctx, verb)
        finally:
            mine.close()

    queue.task(report)
    async with queue:
        done = await (await queue.enqueue("report")).wait(10)
    assert done.status is Status.COMPLETED, done.error


async def test_a_task_whose_step_is_in_an_open_transaction_is_cancelled_after_it(
    pg_dsn: str, connection: Connection
) -> None:
    """Until then the cancellation is refused: the step and its effect would commit for a task that was
    taken away."""
    started, may_commit, hung = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hang(ctx: Context) -> None:
        async with connection.transaction():
            await ctx.once("first", pay, tx=connection)
            started.set()
            await may_commit.wait()
        hung.set()
        await asyncio.Event().wait()

    queue = made_queue(pg_dsn, task_timeout=None)
    queue.task(hang)
    async with queue, asyncio.timeout(15):
        task = await queue.enqueue("hang")
        await started.wait()
        for answer in await all_of(lambda: queue.cancel(task.id)):
            assert isinstance(answer, StoreBusy)
            assert task.id in str(answer)
        may_commit.set()
        await hung.wait()
        assert (await queue.cancel(task.id)).status is Status.ABORTED


async def test_callers_that_wait_for_a_lock_let_others_pass(
    pg_dsn: str, connection: Connection
) -> None:
    """Sixty callers wait for one key. Later callers of other keys are served before the first of them
    gives up."""
    async with made_queue(pg_dsn) as queue, asyncio.timeout(30), connection.transaction():
        await queue.enqueue("work", {}, idempotency_key="K", tx=connection)
        callers = [asyncio.create_task(refused(queue)) for _ in range(60)]
        await asyncio.sleep(0)
        plain = await queue.enqueue("work", {"value": 1})
        keyed = await queue.enqueue("work", {"value": 2}, idempotency_key="other")
        assert set(await asyncio.gather(plain.result(5), keyed.result(5))) == {1, 2}
        assert not any(caller.done() for caller in callers)
        await asyncio.gather(*callers)


async def refused(queue: TaskQueue) -> None:
    with pytest.raises(StoreBusy):
        await queue.enqueue("work", {}, idempotency_key="K")


async def test_an_enqueue_that_waits_for_a_key_gets_its_task_after_the_commit(
    pg_dsn: str, connection: Connection
) -> None:
    async with made_queue(pg_dsn) as queue, asyncio.timeout(15):
        async with connection.transaction():
            inside = await queue.enqueue("work", {}, idempotency_key="K", tx=connection)
            callers = [asyncio.create_task(knock(queue)) for _ in range(CALLERS)]
            await lock_timed_out(pg_dsn)
        await asyncio.gather(*callers)
        assert (await queue.enqueue("work", {}, idempotency_key="K")).id == inside.id


async def lock_timed_out(dsn: str) -> None:
    """Waits until a transaction was rolled back after its wait: then the callers are in their second try."""
    other = await asyncpg.connect(dsn)
    question = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    try:
        before = await other.fetchval(question)
        while await other.fetchval(question) == before:
            await look_again()
    finally:
        await other.close()


async def test_handlers_report_while_callers_have_all_their_connections(pg_dsn: str) -> None:
    queue = made_queue(pg_dsn, default_max_attempts=1)

    async def report(ctx: Context) -> None:
        await ctx.parents()
        await ctx.progress(0.5)
        await ctx.once("first", pay)
        await ctx.save({"row": 1})

    queue.task(report)
    async with queue, AsyncExitStack() as stack, asyncio.timeout(15):
        other = TaskQueue(pg_dsn)
        stack.push_async_callback(other.stop)
        task = await other.enqueue("report", delay=0.5)
        pool = (await queue.open()).store._driver._pools.here()  # type: ignore[attr-defined]
        while pool._free > pool._reserved(Rank.CALLERS):
            await stack.enter_async_context(pool.connection())
        done = await other.wait_task(task.id, 10)
    assert done.status is Status.COMPLETED, done.error


@pytest.mark.parametrize("in_tx", [True, False])
async def test_a_step_in_the_open_transaction_of_an_earlier_run_is_in_progress(
    pg_dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch, in_tx: bool
) -> None:
    """The earlier run stands for a frozen process. Its successor gets InProgress, and does not wait until
    its own timeout."""
    monkeypatch.setattr(stores, "IN_TX_SECONDS", 0.3)
    left_open = connection.transaction()

    async def stop(_turn: object) -> None:
        raise ConnectionError("here it stopped")

    async def frozen(ctx: Context) -> object:
        if ctx.attempt == 1:
            await left_open.start()
            return await ctx.once("s", stop, tx=connection)
        mine = await asyncpg.connect(pg_dsn)
        try:
            with pytest.raises(InProgress, match="transaction is open"):
                async with mine.transaction():
                    await ctx.once("s", pay, tx=mine if in_tx else None)
            await left_open.rollback()
            async with mine.transaction():
                return await ctx.once("s", pay, tx=mine)
        finally:
            await mine.close()

    queue = made_queue(pg_dsn, task_timeout=10, default_max_attempts=2, base_retry_delay=0.01)
    queue.task(frozen)
    async with queue, asyncio.timeout(30):
        assert await (await queue.enqueue("frozen")).result(20) == "paid"
