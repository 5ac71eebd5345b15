"""The feed stays complete when it is pruned, numbered in batches, or restarted after a restore."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from holdfast.clock import VirtualClock
from holdfast.core.event import Position
from holdfast.store import feed as feed_module
from holdfast.store.feed import Page, Reset, ResetReason
from holdfast.store.postgres import dialect as postgres_dialect
from holdfast.store.sqlite import dialect as sqlite_dialect
from holdfast.store.store import Store
from proof.lab.servers import Postgres
from tests.backends import Bench, PostgresBench
from tests.conformance.tasks.helpers import asked, fresh, get
from tests.statements import query


async def insert(store: Store, count: int) -> None:
    """Writes a record for each task."""
    for _ in range(count):
        await store.insert([fresh(store)])


async def page(store: Store, after: Position | None = None, limit: int = 500) -> Page:
    answer = await store.feed.read(after, limit)
    assert isinstance(answer, Page), answer
    return answer


def offsets(answer: Page) -> list[int]:
    return [event.position.offset for event in answer.events]


async def test_only_a_prefix_is_pruned(store: Store, bench: Bench) -> None:
    """Records are not ordered by time: a young record also keeps the old ones with higher offsets."""
    await insert(store, 6)
    await page(store)
    old = store.now() - 1_000
    await bench.sql(f"UPDATE holdfast_feed SET at = {old} WHERE first_offset IN (1, 3, 4)")
    everything = await page(store)
    await store.prune(before=0, dead_before=0, feed_before=store.now() - 500)
    assert offsets(await page(store)) == [2, 3, 4, 5, 6]
    position = everything.events[0].position
    assert offsets(await page(store, position)) == [2, 3, 4, 5, 6]


async def test_a_reader_never_skips_a_gap(store: Store, bench: Bench) -> None:
    await insert(store, 5)
    head = await store.feed.head()
    await bench.sql("DELETE FROM holdfast_feed WHERE first_offset = 3")
    first = await page(store)
    assert offsets(first) == [1, 2]
    after = await store.feed.read(first.position)
    assert isinstance(after, Reset)
    assert (after.reason, after.head) == (ResetReason.PRUNED, head)


async def test_a_page_fetches_the_records_that_it_shows(store: Store) -> None:
    for _ in range(3):
        await store.insert([fresh(store) for _ in range(100)])
    await store.feed.head()
    assert len(await query(store, "read_records", after=0, limit=10)) == 1
    assert len(await query(store, "read_records", after=95, limit=10)) == 2
    read: list[int] = []
    position = None
    while len(read) < 300:
        part = await page(store, position, 7)
        read += offsets(part)
        position = part.position
    assert read == list(range(1, 301))


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_dialect, "BATCH", 3)
    monkeypatch.setattr(sqlite_dialect, "BATCH", 3)


@pytest.mark.usefixtures("small_batches")
async def test_a_backlog_is_numbered_and_counted_in_batches(store: Store) -> None:
    await insert(store, 11)
    part = await page(store)
    assert offsets(part) == list(range(1, len(part.events) + 1))
    assert (await store.feed.head()).offset == 11
    assert offsets(await page(store)) == list(range(1, 12))
    assert [row[4] for row in await store.feed.counters()] == [11]


@pytest.mark.usefixtures("small_batches")
async def test_figures_behind_a_long_backlog_are_late_and_not_an_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "COUNT_BATCHES", 2)
    await insert(store, 14)
    totals = [sum(row[4] for row in await store.feed.counters()) for _ in range(4)]
    assert totals == [6, 12, 14, 14]


@pytest.mark.usefixtures("small_batches")
async def test_batches_beside_racing_writers_leave_no_hole(shared_bench: Bench) -> None:
    writers = [await shared_bench.open() for _ in range(3)]
    reader = await shared_bench.open()
    read: list[int] = []

    async def write(store: Store) -> None:
        for _ in range(15):
            await store.insert([fresh(store), fresh(store)])

    async def follow() -> None:
        position = None
        while len(read) < 90:
            part = await page(reader, position)
            read.extend(offsets(part))
            position = part.position
            await asyncio.sleep(0)

    async with asyncio.timeout(30):
        await asyncio.gather(follow(), *map(write, writers))
    assert read == list(range(1, 91))


async def test_a_new_epoch_resets_every_reader(shared_bench: Bench) -> None:
    store, reader = await shared_bench.open(), await shared_bench.open()
    await insert(store, 3)
    old = await reader.feed.head()
    head = await store.feed.new_epoch()
    assert head.offset == 3
    assert head.epoch != old.epoch
    reset = await reader.feed.read(old)
    assert isinstance(reset, Reset)
    assert (reset.reason, reset.head) == (ResetReason.EPOCH, head)
    assert offsets(await page(reader, head)) == []


# -- another database (PostgreSQL) -----------------------------------------------------------------------


async def test_a_restored_database_has_a_new_epoch(pg_server: Postgres, pg_empty_dsn: str) -> None:
    """A copy stands for a database that was restored from a dump. PostgreSQL copies only a database without
    sessions, and one that was lent before has that of `databases.py`."""
    bench = PostgresBench(VirtualClock(), pg_empty_dsn)
    store = await bench.open()
    await insert(store, 2)
    await bench.close()
    name = pg_empty_dsn.rpartition("/")[2]
    admin = await asyncpg.connect(pg_server.dsn())
    await admin.execute(f"CREATE DATABASE restored TEMPLATE {name}")
    store = await bench.open()
    await insert(store, 4)
    position = await store.feed.head()
    await bench.close()
    restored = PostgresBench(bench.clock, pg_server.dsn("restored"))
    store = await restored.open()
    await insert(store, 6)
    reset = await store.feed.read(position)
    assert isinstance(reset, Reset)
    assert reset.reason is ResetReason.EPOCH
    await restored.close()
    again = await restored.open()  # Nothing has changed since.
    assert (await again.feed.head()).epoch == reset.head.epoch
    await restored.close()
    await admin.execute("DROP DATABASE restored")
    await admin.close()


async def test_a_server_that_lost_its_tail_has_a_new_epoch_also_for_those_connected() -> None:
    """Recovery from a backup and the promotion of a standby put the same cluster on another timeline."""
    with Postgres(restore_command="false", hot_standby="off") as server:
        bench = PostgresBench(VirtualClock(), server.dsn())
        store = await bench.open()
        await insert(store, 2)
        server.kill()
        shutil.copytree(server.data, server.root / "backup")
        server.start()
        await insert(store, 4)
        position = await store.feed.head()
        server.kill()
        shutil.rmtree(server.data)
        shutil.move(server.root / "backup", server.data)
        (server.data / "recovery.signal").touch()
        for path in (server.data, *server.data.rglob("*")):
            shutil.chown(path, *server_owner(server))
        server.start()
        await insert(store, 6)
        reset = await store.feed.read(position)
        assert isinstance(reset, Reset)
        assert reset.reason is ResetReason.EPOCH
        await bench.close()


def server_owner(server: Postgres) -> tuple[int, int]:
    owner = server.root.stat()
    return owner.st_uid, owner.st_gid


@asynccontextmanager
async def role_without_rights(dsn: str, name: str) -> AsyncIterator[str]:
    """The address of a role that can use the tables of this database but not read its control data."""
    admin = await asyncpg.connect(dsn)
    await admin.execute(f"CREATE ROLE {name} LOGIN")
    await admin.execute(f"GRANT ALL ON SCHEMA public TO {name}")
    await admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}")
    await admin.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}")
    await admin.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public")
    yield dsn.replace("//postgres@", f"//{name}@")
    await admin.execute(f"DROP OWNED BY {name}")
    await admin.execute(f"DROP ROLE {name}")
    await admin.close()


async def test_roles_with_different_rights_share_one_epoch(pg_dsn: str) -> None:
    owner = PostgresBench(VirtualClock(), pg_dsn)
    before = await (await owner.open()).feed.head()
    async with role_without_rights(pg_dsn, "plain_two") as theirs:
        for dsn in (theirs, pg_dsn) * 2:
            bench = PostgresBench(VirtualClock(), dsn)
            assert (await (await bench.open()).feed.head()).epoch == before.epoch
            await bench.close()
    await owner.close()


async def test_a_role_with_more_rights_that_comes_later_starts_no_epoch(pg_dsn: str) -> None:
    owner = PostgresBench(VirtualClock(), pg_dsn)
    await owner.open()
    async with role_without_rights(pg_dsn, "plain_three") as theirs:
        await owner.sql("UPDATE holdfast_feed_head SET identity = ''")
        bench = PostgresBench(VirtualClock(), theirs)
        before = await (await bench.open()).feed.head()
        await bench.close()
        later = PostgresBench(VirtualClock(), pg_dsn)
        assert (await (await later.open()).feed.head()).epoch == before.epoch
        await later.close()
    await owner.close()


async def test_a_callers_role_without_rights_can_enqueue_in_its_transaction(pg_dsn: str) -> None:
    """The query for the identity of the database must not break the caller's transaction."""
    bench = PostgresBench(VirtualClock(), pg_dsn)
    store = await bench.open()
    async with role_without_rights(pg_dsn, "plain_four") as theirs:
        connection = await asyncpg.connect(theirs)
        async with connection.transaction():
            await store.insert([asked(store, "in-tx")], tx=connection)
        await connection.close()
    assert (await get(store, "in-tx")).id == "in-tx"
    await bench.close()


async def test_a_role_without_rights_knows_which_database_it_is(
    pg_server: Postgres, pg_empty_dsn: str
) -> None:
    admin = await asyncpg.connect(pg_empty_dsn)
    await admin.execute("CREATE ROLE plain_one LOGIN")
    await admin.execute("GRANT CREATE ON SCHEMA public TO plain_one")
    dsn = pg_empty_dsn.replace("//postgres@", "//plain_one@")
    bench = PostgresBench(VirtualClock(), dsn)
    store = await bench.open()
    await insert(store, 1)
    identity = (await bench.sql("SELECT identity FROM holdfast_feed_head"))[0][0]
    assert len(identity.split("-")) == 4
    await bench.close()
    await admin.execute("DROP OWNED BY plain_one")
    await admin.execute("DROP ROLE plain_one")
    await admin.close()
