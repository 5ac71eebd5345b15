"""Who creates the tables of a store: a worker and the library do, commands that only look do not. An
application role needs no privilege to create them. No raw error of a driver leaves `open`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import asyncpg
import pytest

from holdfast import TaskQueue
from holdfast.clock import SystemClock
from holdfast.errors import BadConfig, MissingPrivilege, SchemaMismatch, StoreUnavailable
from holdfast.idempotency import EntryLease, Ledger
from holdfast.locks import Locks
from holdfast.store.backends import store_for
from tests.acceptance.cli_support import Done, run_inside

LOOKING = (
    ("task", "list"),
    ("stats",),
    ("lock", "list"),
    ("queue", "list"),
    ("node", "list"),
    ("dlq", "list"),
    ("schedule", "list"),
    ("events", "tail"),
    ("enqueue", "work"),
    ("db", "new-epoch", "--yes"),
)
TABLES = "SELECT count(*) FROM pg_class WHERE relname LIKE 'holdfast%'"
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "postgresql.md"
GRANTS = """
GRANT USAGE ON SCHEMA public TO app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app;
"""


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
async def test_a_command_creates_no_tables_on_postgres(
    pg_empty_dsn: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = await inside(tmp_path, *command, "--url", pg_empty_dsn)
    assert done.code == 10
    assert "start a worker" in done.said
    assert await fetch(pg_empty_dsn, TABLES) == 0


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_command_leaves_an_empty_file_empty(tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "empty.db"
    file.touch()
    done = run_inside(tmp_path, *command, "--url", f"sqlite:///{file}")
    assert done.code == 10
    assert "start a worker" in done.said
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]
    assert file.stat().st_size == 0


async def test_doctor_creates_no_tables(pg_empty_dsn: str, tmp_path: Path) -> None:
    done = await inside(tmp_path, "doctor", "--url", pg_empty_dsn)
    assert done.code == 1
    assert "start a worker" in done.said
    assert await fetch(pg_empty_dsn, TABLES) == 0


async def test_the_library_creates_the_tables(pg_empty_dsn: str, tmp_path: Path) -> None:
    for url in (pg_empty_dsn, f"sqlite:///{tmp_path}/new.db"):
        queue = with_work(url)
        await queue.enqueue("work", {"n": 1})
        await queue.stop()
        assert (await inside(tmp_path, "task", "list", "--url", url)).code == 0


@pytest.mark.parametrize("database", ["postgres", "sqlite"])
async def test_a_command_does_not_upgrade_the_schema(
    pg_empty_dsn: str, tmp_path: Path, database: str
) -> None:
    url = pg_empty_dsn if database == "postgres" else f"sqlite:///{tmp_path}/queue.db"
    store = store_for(url, SystemClock())()
    await store.open()
    await store.close()
    if database == "postgres":
        await fetch(url, "DELETE FROM holdfast_migration WHERE number > 9")
    else:
        apsw.Connection(str(tmp_path / "queue.db")).execute(
            "DELETE FROM holdfast_migration WHERE number > 9"
        )
    store = store_for(url, SystemClock(), create=False)()
    with pytest.raises(SchemaMismatch, match="start a worker of this version, which upgrades it"):
        await store.open()


async def test_a_role_without_create_uses_an_existing_store(pg_dsn: str) -> None:
    async with role(pg_dsn, GRANTS) as url, with_work(url) as queue:
        handle = await queue.enqueue("work", {"n": 3})
        assert await handle.result(30) == 3
        async with Locks.connect(url) as locks, locks.hold("a") as lease:
            assert lease.fence > 0
        async with Ledger.connect(url) as ledger:
            assert await ledger.run("tests", "answer", "1", None, answer) == 42
        assert (await queue.get_stats()).restarts == 0


async def test_the_privileges_of_the_page_are_enough(pg_empty_dsn: str, tmp_path: Path) -> None:
    of_database, of_owner, *_ = re.findall("```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    admin = await asyncpg.connect(pg_empty_dsn)
    try:
        await admin.execute(of_database)
        owner_url, app_url = (
            re.sub("//[^@/]*@", f"//{name}@", pg_empty_dsn) for name in ("owner", "app")
        )
        owner = await asyncpg.connect(owner_url)
        await owner.execute(of_owner)
        await owner.close()
        assert (await inside(tmp_path, "task", "list", "--url", app_url)).code == 10
        with pytest.raises(MissingPrivilege, match="GRANT CREATE ON SCHEMA holdfast TO app"):
            await TaskQueue(app_url).open()
        assert (await inside(tmp_path, "db", "migrate", "--url", owner_url)).code == 0
        async with with_work(app_url) as queue:
            assert await (await queue.enqueue("work", {"n": 3})).result(30) == 3
    finally:
        await admin.execute("DROP OWNED BY app; DROP OWNED BY owner; DROP ROLE app, owner")
        await admin.close()


async def test_a_role_without_create_gets_the_missing_privilege(pg_empty_dsn: str) -> None:
    async with role(pg_empty_dsn, "") as url:
        for open_store in (TaskQueue(url).open, store_for(url, SystemClock())().open):
            with pytest.raises(MissingPrivilege, match="GRANT CREATE ON SCHEMA") as raised:
                await open_store()
            assert "'app'" in str(raised.value)


async def test_a_role_without_access_to_the_tables_gets_the_missing_privilege(pg_dsn: str) -> None:
    async with role(pg_dsn, "") as url:
        with pytest.raises(MissingPrivilege, match="permission denied for table"):
            await TaskQueue(url).open()
    async with role(pg_dsn, GRANTS + "REVOKE INSERT ON holdfast_task FROM app;") as url:
        queue = with_work(url)
        with pytest.raises(MissingPrivilege, match="permission denied for table holdfast_task"):
            await queue.enqueue("work", {"n": 1})
        await queue.stop()


async def test_a_role_that_may_not_connect_gets_the_missing_privilege(pg_dsn: str) -> None:
    database = pg_dsn.partition("?")[0].rpartition("/")[2]
    async with role(pg_dsn, f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC;") as url:
        with pytest.raises(MissingPrivilege, match="permission denied for database"):
            await TaskQueue(url).open()


@pytest.mark.parametrize("option", ["foo=1", "work_mem=x", "data_directory=/"])
async def test_a_wrong_option_of_the_address_is_a_bad_config(pg_dsn: str, option: str) -> None:
    mark = "&" if "?" in pg_dsn else "?"
    with pytest.raises(BadConfig):
        await TaskQueue(f"{pg_dsn}{mark}{option}").open()


async def test_a_schema_that_does_not_exist_is_reported(pg_dsn: str) -> None:
    mark = "&" if "?" in pg_dsn else "?"
    with pytest.raises(StoreUnavailable, match="schema"):
        await TaskQueue(f"{pg_dsn}{mark}search_path=nowhere").open()


async def test_db_migrate_creates_the_tables(pg_empty_dsn: str, tmp_path: Path) -> None:
    for url in (pg_empty_dsn, f"sqlite:///{tmp_path}/new.db"):
        assert (await inside(tmp_path, "db", "migrate", "--url", url)).code == 0
        assert (await inside(tmp_path, "task", "list", "--url", url)).code == 0


@asynccontextmanager
async def role(dsn: str, grants: str) -> AsyncIterator[str]:
    """The address of the store for the role `app`, which has only these privileges."""
    owner = await asyncpg.connect(dsn)
    try:
        await owner.execute("CREATE ROLE app LOGIN")
        await owner.execute(grants or "SELECT 1")
        yield re.sub("//[^@/]*@", "//app@", dsn)
    finally:
        await owner.execute("DROP OWNED BY app; DROP ROLE app")
        await owner.close()


def with_work(url: str) -> TaskQueue:
    queue = TaskQueue(url)

    @queue.task
    async def work(n: int) -> int:
        return n

    return queue


async def answer(_: EntryLease) -> int:
    return 42


async def inside(folder: Path, *args: str) -> Done:
    """The command in a thread: it runs an event loop."""
    return await asyncio.to_thread(run_inside, folder, *args)


async def fetch(dsn: str, question: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()
