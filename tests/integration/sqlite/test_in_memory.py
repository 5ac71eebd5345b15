"""New databases in memory are copies of a migrated one."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.store.sqlite import connection as sqlite, in_memory

EPOCH = "SELECT epoch FROM holdfast_feed_head"


def rows(connection: apsw.Connection) -> dict[str, Sequence[object]]:
    """The definitions, and the rows of every table."""
    made: dict[str, Sequence[object]] = {
        "": connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    }
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        made[str(table)] = connection.execute(f'SELECT * FROM "{table}"').fetchall()
    return made


def test_a_copy_is_what_the_migrations_make_but_for_its_epoch() -> None:
    migrated, *copies = (sqlite.connect(":memory:") for _ in range(3))
    sqlite.migrate(migrated)
    for copy in copies:
        in_memory.create(copy)
    assert len({str(each.execute(EPOCH).fetchall()) for each in (migrated, *copies)}) == 3
    expected = rows(migrated)
    for copy in copies:
        copy.execute("UPDATE holdfast_feed_head SET epoch = ?", [migrated.execute(EPOCH).get])
        assert rows(copy) == expected
        sqlite.migrate(copy)
        assert rows(copy) == expected
    for each in (migrated, *copies):
        each.close()
