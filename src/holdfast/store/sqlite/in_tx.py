"""Scripts inside a caller's own transaction on the same file.

Promises: a connection to another file is refused before anything is written; what goes wrong is a typed
error.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TypeVar

import apsw

from holdfast.errors import Conflict, InvalidInput
from holdfast.store.script import Script
from holdfast.store.sqlite import connection as sqlite

T = TypeVar("T")


def checked(connection: object) -> apsw.Connection:
    """The connection, with a transaction that is open."""
    if isinstance(connection, apsw.Connection):
        if not connection.in_transaction:
            raise InvalidInput(
                "the connection has no open transaction: use `with connection:` or BEGIN IMMEDIATE"
            )
        return connection
    if isinstance(connection, sqlite3.Connection):
        raise InvalidInput(
            "a connection of the standard library's sqlite3 cannot carry the enqueue: its own copy "
            "of SQLite does not see this one's locks within a process, and two that write at once "
            "destroy the file; open the file with apsw.Connection for your transaction"
        )
    raise InvalidInput(
        f"a {type(connection).__name__} cannot carry the enqueue: "
        "pass the apsw connection whose transaction is open on this very file"
    )


def is_writing(connection: object) -> bool:
    """Whether its transaction has the file's one write lock."""
    try:
        return (
            isinstance(connection, apsw.Connection)
            and connection.txn_state() == apsw.SQLITE_TXN_WRITE
        )
    except apsw.ConnectionClosedError:
        return False


def check_file(connection: apsw.Connection, path: str) -> None:
    """One file, however it is named. A database in memory belongs to its own connection alone."""
    try:
        if Path(connection.filename).samefile(path):
            return
    except OSError:
        pass  # one of them is in memory, or was removed
    raise InvalidInput(
        f"the connection has '{connection.filename or ':memory:'}' open, not the file of this store: "
        "open the store's own file for the transaction"
    )


def run(connection: apsw.Connection, script: Script[T]) -> T:
    try:
        return sqlite.run(connection, script)
    except apsw.ConstraintError as error:
        raise Conflict(
            f"the same key or id was brought at the same time: roll back and try again ({error})"
        ) from error
    except apsw.Error as error:
        raise sqlite.translated(error, "SQLite refused a statement of the transaction") from error
