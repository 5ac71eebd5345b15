"""Creates the tables of a new database in memory: a copy of one that was migrated before.

Promises: the result is what the migrations make, with another feed epoch. The first database of a
process runs the migrations, the others take a tenth of that time. Never: used for a file, which another
process may open at the same time.
"""

from __future__ import annotations

from functools import cache

import apsw

from holdfast.store.sqlite import connection as sqlite

NEW_EPOCH = "UPDATE holdfast_feed_head SET epoch = lower(hex(randomblob(4)))"


def create(connection: apsw.Connection) -> None:
    """Creates the tables in an empty database in memory."""
    try:
        source = apsw.Connection(":memory:")
        try:
            source.deserialize("main", _migrated())
            with connection.backup("main", source, "main") as copy:
                copy.step()
        finally:
            source.close()
        connection.execute(NEW_EPOCH)
    except apsw.Error as error:
        raise sqlite.translated(error, "a SQLite store in memory could not be created") from error


@cache
def _migrated() -> bytes:
    connection = sqlite.connect(":memory:")
    try:
        sqlite.migrate(connection)
        return connection.serialize("main")
    finally:
        connection.close()
