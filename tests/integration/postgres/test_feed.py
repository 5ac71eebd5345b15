"""PostgreSQL alone: a feed without gaps over racing writers, late commits and restored databases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

import asyncpg
import pytest

from holdfast.clock import VirtualClock
from holdfast.core.event import Event, Position
from holdfast.core.task import Status
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.store.feed import Page, Reset, ResetReason
from holdfast.store.postgres import connection as postgres
from holdfast.store.postgres.dialect import PostgresDialect
from holdfast.store.script import Rows, StatementCall
from holdfast.store.scripts import feed
from holdfast.store.store import Store
from tests.backends import PostgresBench
from tests.conformance.tasks.helpers import (
    after,
    all_tasks,
    asked,
    check_counters,
    claim,
    claim_ids,
    complete,
    failing,
    put,
    put_plain,
    read_all,
    runner_says,
    status,
)
from tests.looks import look_again


class Tail:
    """A reader that follows the feed while others write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.events: list[Event] = []
        self.position: Position | None = None

    async def read(self, limit: int = 37) -> None:
        page = await self._store.feed.read(self.position, limit)
        assert isinstance(page, Page)
        self.events += page.events
        self.position = page.position

    async def follow(self, until: Callable[[], bool]) -> None:
        while not until():
            await self.read()
            await asyncio.sleep(0)
        while self.position != await self._store.feed.head():
            await self.read()

    def check(self) -> None:
        """No event twice, none skipped, and the events of each task in a valid order."""
        offsets = [event.position.offset for event in self.events]
        assert offsets == list(range(1, len(offsets) + 1))
        lives: dict[str, list[str]] = {}
        for event in self.events:
            lives.setdefault(event.task_id, []).append(event.kind)
        for kinds in lives.values():
            assert kinds[0] == "task.enqueued"
            assert kinds[1:] in (
                [],
                ["task.started"],
                ["task.started", "task.completed"],
                ["task.started", "task.failed", "task.dead"],
                ["task.failed", "task.dead"],
            )


async def run_all(*parts: Awaitable[Any]) -> bool:
    await asyncio.gather(*parts)
    return True


async def test_a_reader_behind_racing_writers_misses_nothing(bench: PostgresBench) -> None:
    stores = [await bench.open() for _ in range(6)]

    async def produce(store: Store, number: int) -> None:
        for n in range(25):
            if n % 5 == 0:
                await put(store, f"{number}-{n}", idempotency_key=f"{number}-{n}")
            else:
                await put_plain(store, 3)

    async def work(store: Store) -> None:
        for n in range(30):
            for task in await claim(store, 5):
                if n % 3:
                    await complete(store, task)
                else:
                    await runner_says(store, task, failing(final=True))

    tails = [Tail(store) for store in stores[:2]]
    writing = asyncio.create_task(
        run_all(*(produce(store, n) for n, store in enumerate(stores)), *(work(s) for s in stores))
    )
    await asyncio.gather(*(tail.follow(writing.done) for tail in tails), writing)
    for tail in tails:
        tail.check()
    assert tails[0].events == tails[1].events
    assert len({e.task_id for e in tails[0].events}) == len(await all_tasks(stores[0]))
    await check_counters(stores[0])


async def test_a_transaction_that_commits_late_is_not_skipped(
    bench: PostgresBench, store: Store
) -> None:
    tail = Tail(store)
    connection = await asyncpg.connect(bench.dsn)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("CREATE TABLE orders (id text)")
    await store.insert([asked(store, "late")], tx=connection)
    for _ in range(5):
        await put_plain(store, 2)
        await tail.read()
    for task in await claim(store, 4):
        await complete(store, task)
    await tail.read()
    assert "late" not in {event.task_id for event in tail.events}
    assert await claim_ids(store, 100) != []
    await check_counters(store)
    await transaction.commit()
    await connection.close()
    assert await claim_ids(store) == ["late"]
    await tail.follow(lambda: True)
    tail.check()
    assert [e.kind for e in tail.events if e.task_id == "late"] == ["task.enqueued", "task.started"]
    await check_counters(store)


async def test_a_caller_that_rolls_back_leaves_nothing(bench: PostgresBench, store: Store) -> None:
    connection = await asyncpg.connect(bench.dsn)
    transaction = connection.transaction()
    await transaction.start()
    await store.insert([asked(store, "never")], tx=connection)
    await put(store, "other")
    await transaction.rollback()
    with pytest.raises(InvalidInput, match="no open transaction"):
        await store.insert([asked(store)], tx=connection)
    await connection.close()
    assert [event.task_id for event in await read_all(store)] == ["other"]
    await check_counters(store)


async def test_a_child_committed_late_waits_for_a_parent_that_ends_meanwhile(
    bench: PostgresBench, store: Store
) -> None:
    await put(store, "p")
    parent = (await claim(store, 1))[0]
    connection = await asyncpg.connect(bench.dsn)
    transaction = connection.transaction()
    await transaction.start()
    await store.insert([asked(store, "c", depends_on=after("p"))], tx=connection)
    ending = asyncio.create_task(complete(store, parent))
    for _ in range(20):
        await asyncio.sleep(0)
    await transaction.commit()
    await connection.close()
    await ending
    await store.links.link()
    assert await status(store, "c") is Status.QUEUED


async def test_the_same_key_at_once_makes_one_task(bench: PostgresBench) -> None:
    stores = [await bench.open() for _ in range(4)]
    answers = await asyncio.gather(
        *(
            store.insert([asked(store, idempotency_key=f"k{n}", payload=n)])
            for n in range(10)
            for store in stores
        )
    )
    assert len({answer[0].task_id for answer in answers}) == 10
    assert sum(answer[0].created for answer in answers) == 10
    assert len(await all_tasks(stores[0])) == 10
    await check_counters(stores[0])


class Stepper:
    """A script on its own connection, one statement at a time, inside one transaction."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def __aenter__(self) -> Self:
        self.connection = await postgres.connect(self._dsn)
        self._transaction = self.connection.transaction()
        await self._transaction.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def commit(self) -> None:
        await self._transaction.commit()


async def test_counters_are_exact_beside_a_reader_that_assigns_offsets(
    bench: PostgresBench, store: Store
) -> None:
    """Counting waits for the head that a reader holds, and must not skip the offsets that the reader
    assigned."""
    await put_plain(store, 3)
    await store.feed.counters()
    async with Stepper(bench.dsn) as reader:
        await put_plain(store, 2)
        await postgres.run(reader.connection, feed.head(PostgresDialect(bench.clock.monotonic)))
        folding = asyncio.create_task(store.feed.counters())
        await blocked(bench)
        await reader.commit()
        await folding
    await check_counters(store)


async def prune(store: Store) -> object:
    return await store.prune(before=1e12, dead_before=1e12, feed_before=1e12)


VERBS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "counters": lambda store: store.feed.counters(),
    "head": lambda store: store.feed.head(),
    "events": lambda store: store.feed.read(None),
    "history": lambda store: store.feed.history("a"),
    "prune": prune,
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_client_that_freezes_between_two_statements_blocks_no_other(
    bench: PostgresBench, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that assigns offsets, counts or prunes holds no lock that others need while it is frozen."""
    monkeypatch.setitem(postgres.SETTINGS, "idle_in_transaction_session_timeout", "0")
    store = await bench.open()
    await put(store, "a")
    other = await bench.open()
    execute = postgres.execute
    frozen: list[str] = []
    thaw = asyncio.Event()

    async def freezing(connection: postgres.Connection, call: StatementCall) -> Rows:
        rows = await execute(connection, call)
        if call.name in {"number_records", "count_records", "prune_tasks", "prune_feed"}:
            current = asyncio.current_task()
            if current is not None and current.get_name() == f"frozen {call.name}":
                frozen.append(call.name)
                reached.set()
                await thaw.wait()
        return rows

    monkeypatch.setattr(postgres, "execute", freezing)
    for at in ("number_records", "count_records", "prune_tasks", "prune_feed"):
        thaw.clear()
        reached = asyncio.Event()
        going = asyncio.create_task(run_verb(store, verb), name=f"frozen {at}")
        there = asyncio.create_task(reached.wait())
        await asyncio.wait([going, there], return_when=asyncio.FIRST_COMPLETED)
        there.cancel()
        async with asyncio.timeout(10):
            await put(other, f"{verb} {at}")
            for each in VERBS.values():
                await each(other)
        thaw.set()
        await going
    assert frozen
    await check_counters(store)


async def run_verb(store: Store, verb: str) -> None:
    await VERBS[verb](store)


async def test_a_gap_made_by_pruning_during_a_read_is_a_reset(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        await put(store, f"t{n}")
    start = Position((await store.feed.head()).epoch, 0)
    execute = postgres.execute

    async def pruning(connection: postgres.Connection, call: StatementCall) -> Rows:
        if call.name == "read_records":
            monkeypatch.setattr(postgres, "execute", execute)
            await prune(store)
        return await execute(connection, call)

    monkeypatch.setattr(postgres, "execute", pruning)
    found = await store.feed.read(start)
    assert isinstance(found, Reset)
    assert found.reason is ResetReason.PRUNED
    assert found.oldest.offset == 3


async def blocked(bench: PostgresBench) -> None:
    """Waits until a connection waits for a lock of another."""
    question = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    async with asyncio.timeout(20):
        while (await bench.sql(question))[0][0] == 0:
            await look_again()


async def test_counters_are_right_after_racing_readers_and_counters(bench: PostgresBench) -> None:
    stores = [await bench.open() for _ in range(5)]

    async def fold(store: Store) -> None:
        while not writing.done():
            await store.feed.counters()

    async def read(store: Store) -> None:
        while not writing.done():
            await store.feed.head()

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(
            run_all(*(put_plain(store, 2) for _ in range(40) for store in stores[:2]))
        )
        for each in (fold(stores[2]), fold(stores[3]), read(stores[4]), read(stores[0])):
            group.create_task(each)
    await check_counters(stores[0])


async def test_a_transaction_that_assigns_offsets_and_then_records_is_not_skipped(
    bench: PostgresBench, store: Store
) -> None:
    """Its own transaction began before others that it has seen."""
    async with Stepper(bench.dsn) as one:
        await one.connection.execute("SELECT pg_current_xact_id()")
        await put(store, "theirs")
        await postgres.run(one.connection, feed.head(PostgresDialect(bench.clock.monotonic)))
        await store.insert([asked(store, "own")], tx=one.connection)
        await one.commit()
    assert [event.task_id for event in await read_all(store)] == ["theirs", "own"]


async def test_a_database_restored_elsewhere_has_a_new_epoch(
    bench: PostgresBench, store: Store
) -> None:
    """Transaction ids of another server mean nothing here, and its tail may be lost."""
    await put(store, "before")
    head = await store.feed.head()
    await bench.sql("UPDATE holdfast_feed_head SET scan_xid = '900000000000'::xid8")
    await bench.sql("UPDATE holdfast_feed SET xid = '800000000000'::xid8")
    restored = await bench.open()
    await put(restored, "after")
    assert [event.task_id for event in await read_all(restored)] == ["before", "after"]
    reset = await restored.feed.read(head)
    assert isinstance(reset, Reset)
    assert reset.reason is ResetReason.EPOCH
    await check_counters(restored)


async def test_reused_transaction_ids_are_not_skipped(bench: PostgresBench, store: Store) -> None:
    """A restore or a crash can leave the server behind the last transaction id that a reader has seen."""
    await put(store, "before")
    head = await store.feed.head()
    await bench.sql("UPDATE holdfast_feed_head SET next_xid = '900000000000'::xid8")
    again = await bench.open()
    await put(again, "after")
    assert [event.task_id for event in await read_all(again)] == ["before", "after"]
    assert not isinstance(await again.feed.read(head), Reset), "the feed is the same"


async def test_an_unreachable_server_is_a_typed_error(clock: VirtualClock, pg_dsn: str) -> None:
    with pytest.raises(StoreUnavailable, match="no such database"):
        await PostgresBench(clock, f"{pg_dsn}_nowhere").make().open()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await PostgresBench(clock, "postgresql://postgres@127.0.0.1:1/x").make().open()


async def test_killed_connections_are_replaced(bench: PostgresBench, store: Store) -> None:
    for n in range(30):
        await asyncio.gather(*(put(store, f"{n}-{i}") for i in range(4)))
        await bench.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'holdfast' AND datname = current_database()"
        )
        await asyncio.gather(*(store.reads.get([f"{n}-0"]) for _ in range(4)))
    assert len(await all_tasks(store)) == 120
