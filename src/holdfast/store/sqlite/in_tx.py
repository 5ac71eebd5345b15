"""Runs scripts in the transaction of a caller, on the same file.

Promises: a connection to another file is refused before anything is written. Failures are typed errors.
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
    """Checks that this is a connection with an open transaction, and returns it."""
    if isinstance(connection, apsw.Connection):
        if not connection.in_transaction:
            raise InvalidInput(
                "the connection has no open transaction: use `with connection:` or BEGIN IMMEDIATE"
            )
        return connection
    if isinstance(connection, sqlite3.Connection):
        raise InvalidInput(
            "a connection of the standard library's sqlite3 cannot carry the enqueue: its copy of SQLite "
            "does not see the locks of the copy that holdfast uses in the same process, and two writers "
            "at once corrupt the file; open the file with apsw.Connection for your transaction"
        )
    raise InvalidInput(
        f"{type(connection).__name__} cannot carry the enqueue: "
        "pass an apsw connection with an open transaction on the same file"
    )


def is_writing(connection: object) -> bool:
    """Whether the transaction of the connection holds the write lock of its file."""
    try:
        return (
            isinstance(connection, apsw.Connection)
            and connection.txn_state() == apsw.SQLITE_TXN_WRITE
        )
    except apsw.ConnectionClosedError:
        return False


def check_file(connection: apsw.Connection, path: str) -> None:
    """Raises InvalidInput unless the connection has this file open, under any name. A database in memory is
    never shared."""
    try:
        if Path(connection.filename).samefile(path):
            return
    except OSError:
        pass  # One of them is in memory, or was removed.
    raise InvalidInput(
        f"the connection has '{connection.filename or ':memory:'}' open, not the file of this store: "
        "open the file of the store for the transaction"
    )


def run(connection: apsw.Connection, script: Script[T]) -> T:
    try:
        return sqlite.run(connection, script)
    except apsw.ConstraintError as error:
        raise Conflict(
            f"the same key or id was inserted at the same time: roll back and try again ({error})"
        ) from error
    except apsw.Error as error:
        raise sqlite.translated(error, "SQLite refused a statement of the transaction") from error
