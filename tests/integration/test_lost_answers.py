"""PostgreSQL executed a statement and its answer was lost: the caller still gets the right answer.

Each verb runs with the answer of each of its statements lost in turn, including BEGIN and COMMIT. The
answer and the rows must equal those of an undisturbed run.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from itertools import islice
from typing import Any

import asyncpg
import pytest

from holdfast.clock import VirtualClock
from holdfast.core.alike import FIRST_PART, AlikeTasks
from holdfast.core.claiming import ClaimRequest
from holdfast.core.command import Abort, Complete, Edit, Fail, Instruction, Pause, Replay, Resume
from holdfast.core.decide import Refusal
from holdfast.core.ids import Ids
from holdfast.core.lease import LeaseGranted, LeaseRequest as LeaseAsk
from holdfast.core.ledger import EntryKey, EntryRequest, done, started
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import Submission, submit
from holdfast.core.task import Failure, FailureKind, RunId
from holdfast.errors import StoreUnavailable
from holdfast.orders.model.order import OrderState, Side
from holdfast.orders.sqlstore.store import SqlOrders
from holdfast.store.ledger import EntryStore
from holdfast.store.postgres import driver
from holdfast.store.postgres.dialect import PostgresDialect
from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.scripts import admin, leases
from holdfast.store.store import Store
from proof.lab.proxy import Wire
from proof.lab.servers import Postgres

CLAIM = ClaimRequest(node="n1", queues=("default",), types=("work",), limit=3, lease_seconds=30.0)
STATEMENTS_MAX = 40
Verb = Callable[[Store], Awaitable[Any]]


class Case:
    """The state before, and the verb whose answers are lost."""

    def __init__(self, verb: Verb, *before: Verb) -> None:
        self.verb = verb
        self.before = before


def task(store: Store, name: str, **fields: Any) -> Submission:
    request = {"type": "work", "payload": {"n": 1}} | fields
    return submit(EnqueueRequest(**request), task_id=name, now=store.now(), id_given=False)


def insert(*names: str, **fields: Any) -> Verb:
    return lambda store: store.insert([task(store, name, **fields) for name in names])


async def insert_prepared(store: Store) -> object:
    """The statement is prepared first, and keeps its place on the connection."""
    now, insert_one = store.now(), store.prepare_insert(task(store, "model"))
    answers = [await insert_one(name, "1", now, "") for name in ("t1", "t2")]
    return [(answer.created, answer.status) for answer in answers]


async def insert_alike(store: Store) -> object:
    """In two parts, and so in a transaction. A second run draws all ids before it begins: they are the same
    here, however many are drawn at once."""
    count = FIRST_PART + 50
    ids = iter(store.ids.tasks(1.8e9, count))
    group = AlikeTasks(
        task(store, "model"),
        count,
        lambda some: list(islice(ids, some)),
        lambda at, to: ["1"] * (to - at),
    )
    return [(answer.created, answer.status) for answer in await store.insert(group)]


async def claim(store: Store) -> object:
    return [(t.id, t.fence) for t in (await store.claim(CLAIM)).tasks]


async def claim_in_line(store: Store) -> object:
    """In a transaction with other statements, as for a remote worker."""
    claimed, _ = await store.run(
        lambda dialect, ids, now: dialect.fast.claim(CLAIM, now=now, record_id=ids.record(now))
    )
    return [(t.id, t.fence) for t in claimed.tasks]


async def claim_aged(store: Store) -> object:
    found = await store.claim_aged(CLAIM, 0.0)
    return [(t.id, t.fence) for t in found.tasks]


async def finish(store: Store) -> object:
    tasks = await store.reads.get(["t1", "t2"])
    ended = await store.finish(
        [(t, Instruction(t.id, Complete("null"), fence=t.fence)) for t in tasks.values()]
    )
    # A second run answers "already-applied", with the current task: the completer takes both for
    # done.
    return [t.current if isinstance(t, Refusal) else t.after for t in ended]


async def fail(store: Store) -> object:
    failed = Fail(Failure(FailureKind.ERROR, "boom"), final=True)
    return await store.apply([Instruction("t1", failed, fence=1)])


def ordered(*commands: Any) -> Verb:
    return lambda store: store.apply([Instruction("t1", command) for command in commands])


def pause_queue(store: Store) -> Awaitable[object]:
    return store.run(
        lambda dialect, ids, now: admin.pause_queue(
            dialect, ids, now, name="default", actor="me", reason="why"
        )
    )


def beat(store: Store) -> Awaitable[object]:
    return store.heartbeat("n1", "{}", [RunId("t1", 1)], 60.0)


def lease(make: Any, *, repeatable: bool = True) -> Verb:
    return lambda store: store.run(
        lambda dialect, ids, now: make(leases.Teller(dialect, ids), now), repeatable=repeatable
    )


async def acquire(store: Store) -> object:
    wanted = LeaseAsk("r", "c1", "me", 30.0, 0.0, 0.0)
    granted = await store.run(
        lambda dialect, ids, now: leases.ask(leases.Teller(dialect, ids), wanted, now),
        repeatable=True,
    )
    assert isinstance(granted, LeaseGranted)
    return granted.lease


renew = lease(lambda _, now: leases.renew("r", "c1", 1, 60.0, now))
release = lease(lambda hinter, now: leases.release(hinter, "r", "c1", 1, now))
leave = lease(lambda hinter, now: leases.leave(hinter, "r", "c1", now))
revoke = lease(
    lambda hinter, now: leases.revoke(hinter, "r", "me", "because", now), repeatable=False
)
ASK = EntryRequest(
    entry_key=EntryKey("s", "op", "k"),
    fingerprint="f",
    owner="o1",
    lease_seconds=30.0,
    retention_seconds=60.0,
)


async def begin(store: Store) -> object:
    return started(await EntryStore(store).begin(ASK))


async def end(store: Store) -> object:
    turn = started(await EntryStore(store).begin(ASK))
    await EntryStore(store).end(turn, done(1))
    return turn


def orders(call: Callable[[SqlOrders, str], Awaitable[Any]]) -> Verb:
    async def verb(store: Store) -> object:
        book = SqlOrders(store)
        known = await book.orders()
        return await call(book, known[0].client_order_id if known else "")

    return verb


def _place(book: SqlOrders, **fields: Any) -> Awaitable[Any]:
    return book.place_order("BTCUSDT", Side.BUY, Decimal(2), Decimal(100), **fields)


place = orders(lambda book, _: _place(book))
place_keyed = orders(lambda book, _: _place(book, idem_key="k"))
move = orders(lambda book, name: book.update_order_state(name, OrderState.OPEN))
fill = orders(lambda book, name: book.update_fill(name, Decimal(1), Decimal(100)))
cancel_all = orders(lambda book, _: book.cancel_all_open())
freeze = orders(lambda book, _: book.freeze("stop"))
thaw = orders(lambda book, _: book.thaw())

CASES = {
    "insert": Case(insert("t1", "t2", "t3")),
    "insert with keys": Case(insert("t1", idempotency_key="k")),
    "one plain insert": Case(insert("t1")),
    "one like a model": Case(insert_prepared),
    "plain inserts": Case(insert("t1", "t2")),
    "many alike": Case(insert_alike),
    "claim in a transaction": Case(claim_in_line, insert("t1", "t2")),
    "claim_aged": Case(claim_aged, insert("t1", "t2")),
    "finish": Case(finish, insert("t1", "t2"), claim),
    "fail": Case(fail, insert("t1"), claim),
    "abort": Case(ordered(Abort("me", "why")), insert("t1")),
    "pause": Case(ordered(Pause("me", "why")), insert("t1"), claim),
    "resume": Case(ordered(Resume("me")), insert("t1"), claim, ordered(Pause("me", "why"))),
    "edit": Case(ordered(Edit("me", "2")), insert("t1")),
    "replay": Case(ordered(Replay("me", 0.0, None)), insert("t1"), claim, fail),
    "pause_queue": Case(pause_queue),
    "beat": Case(beat, insert("t1"), claim),
    "acquire": Case(acquire),
    "renew": Case(renew, acquire),
    "release": Case(release, acquire),
    "leave": Case(leave, acquire),
    "revoke": Case(revoke, acquire),
    "begin": Case(begin),
    "end": Case(end, begin),
    "place": Case(place),
    "place with a key": Case(place_keyed),
    "move": Case(move, place),
    "fill": Case(fill, place, move),
    "cancel_all": Case(cancel_all, place, move),
    "freeze": Case(freeze),
    "thaw": Case(thaw, freeze),
}
STATE = {
    "holdfast_task": "history",
    "holdfast_edge": "",
    "holdfast_feed": "id ord xid first_offset",
    "holdfast_queue": "",
    "holdfast_limit": "",
    "holdfast_node": "",
    "holdfast_lease": "",
    "holdfast_lease_audit": "id",
    "holdfast_lease_waiter": "",
    "holdfast_ledger": "",
    "holdfast_order": "number",
    "holdfast_order_answer": "",
    "holdfast_order_freeze": "",
}
"""Tables, and their columns that may differ in a second run."""


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[Store]:
    clock = VirtualClock()
    connected = PostgresDriver(dsn, clock, server_time=False, size=2)
    store = Store(connected, PostgresDialect(clock.monotonic), Ids(random.Random(1)))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def state(dsn: str) -> dict[str, list[Any]]:
    connection = await asyncpg.connect(dsn)
    try:
        return {
            table: sorted(
                repr({k: v for k, v in row.items() if k not in drawn.split()})
                for row in await connection.fetch(f"SELECT * FROM {table}")
            )
            for table, drawn in STATE.items()
        }
    finally:
        await connection.close()


async def empty(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    kept = "holdfast_order_freeze"
    await connection.execute(
        f"TRUNCATE holdfast_commit, {', '.join(t for t in STATE if t != kept)}"
    )
    await connection.execute(f"UPDATE {kept} SET epoch = 0, frozen = 0, reason = '', at = 0")
    await connection.close()


async def run(dsn: str, wire: Wire, case: Case, lose: int | None) -> tuple[Any, Any]:
    """The answer, and the rows afterwards."""
    await empty(dsn)
    async with opened(wire.dsn(dsn)) as store:
        for before in case.before:
            await before(store)
        if lose is not None:
            wire.lose("", skip=lose)
        answer = await case.verb(store)
        wire.keep()
    return answer, await state(dsn)


@pytest.mark.parametrize("name", CASES)
async def test_a_lost_answer_does_not_change_the_result(
    pg_server: Postgres, pg_dsn: str, name: str
) -> None:
    case = CASES[name]
    async with Wire(pg_server.port) as wire:
        answer, after = await run(pg_dsn, wire, case, None)
        for nth in range(STATEMENTS_MAX):
            found, there = await run(pg_dsn, wire, case, nth)
            if len(wire.lost) == nth:
                assert nth > 0
                return
            assert found == answer, wire.lost[-1]
            assert there == after, wire.lost[-1]
    pytest.fail(f"more than {STATEMENTS_MAX} statements")


async def test_a_commit_with_an_unknown_result_raises(
    pg_server: Postgres, pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller must take it neither for a failure nor for a success."""
    monkeypatch.setattr(driver, "SETTLE_SECONDS", (0.0,))
    async with Wire(pg_server.port) as wire, opened(wire.dsn(pg_dsn)) as store:
        await store.insert([task(store, "t1")])
        wire.lose("COMMIT", for_good=True)
        with pytest.raises(StoreUnavailable, match="is unknown"):
            await store.apply([Instruction("t1", Abort("me", "why"))])
