"""One SQLite connection: its settings, its statements, and scripts that run on it.

Promises: WAL with `synchronous=FULL`. A read of many rows is passed to Python as one JSON document, so the
writer thread does not contend for the interpreter lock at each row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeVar

import apsw
import msgspec

from holdfast.core import codec
from holdfast.core.task import Task
from holdfast.errors import DiskFull, HoldfastError, StoreBusy, StoreUnavailable
from holdfast.store import schema
from holdfast.store.columns import TASK_COLUMNS, Column
from holdfast.store.script import Rows, Script, StatementCall, one
from holdfast.store.sql import Statement, Statements, load_migrations

T = TypeVar("T")
PACKAGE: Final = "holdfast.store.sqlite"
BUSY_MILLISECONDS: Final = 10_000
WAL_ATTEMPTS: Final = 100
STATEMENTS_KEPT: Final = 200
STATEMENTS_KEPT_INLINE: Final = 1_000
"""In virtual time the calls of a whole cluster share one connection."""
_encode: Final = msgspec.json.Encoder(enc_hook=codec.plain).encode
_tasks: Final = msgspec.json.Decoder(list[Task])
_rows: Final = msgspec.json.Decoder(list[list[Any]])
LISTS: Final = re.compile(r"\bjson_each\(\s*:(\w+)")
"""A statement reads a list with `json_each`."""
COPIED: Final = "copied"
"""The epoch in a backup. No store that is open has it: random epochs have hexadecimal digits only."""
MARK_COPIED: Final = f"UPDATE holdfast_feed_head SET epoch = '{COPIED}'"
IS_COPIED: Final = f"SELECT 1 FROM holdfast_feed_head WHERE epoch = '{COPIED}'"
END_COPIED: Final = (
    f"UPDATE holdfast_feed_head SET epoch = lower(hex(randomblob(4))) WHERE epoch = '{COPIED}'"
)
WRITES: Final = re.compile(r"^\s*(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)


class SqliteStatement(NamedTuple):
    """A statement ready to run, and the form of its answer."""

    text: str
    answer: Literal["count", "rows", "document", "tasks"]
    lists: tuple[str, ...]
    """The parameters that may be lists."""
    alone: str
    """The text with a transaction around it, for a statement that returns no rows."""


@cache
def statements() -> Statements[SqliteStatement]:
    """The statements of the dialect. Reads are wrapped to return one document."""
    return Statements("sqlite", _rows_macro, _prepared)


def _rows_macro(columns: tuple[Column, ...]) -> str:
    fields = ", ".join(f"value ->> {i} AS {column.name}" for i, column in enumerate(columns))
    return f"(SELECT {fields} FROM json_each(:rows)) AS r"


def _prepared(statement: Statement) -> SqliteStatement:
    lists = tuple(sorted(set(LISTS.findall(statement.text)) - {"rows"}))
    if statement.returns == "nothing":
        alone = f"BEGIN IMMEDIATE;{statement.text};COMMIT"
        return SqliteStatement(statement.text, "count", lists, alone)
    if WRITES.match(statement.text):
        return SqliteStatement(statement.text, "rows", lists, "")
    is_task = statement.returns == "task"
    names = TASK_COLUMNS if is_task else statement.returns.split()
    text = f"SELECT json_group_array(json_array({', '.join(names)})) FROM ({statement.text})"
    return SqliteStatement(text, "tasks" if is_task else "document", lists, "")


def bind(statement: SqliteStatement, call: StatementCall) -> dict[str, Any] | tuple[Any, ...]:
    """Encodes lists as JSON documents. Other values are bound unchanged."""
    if call.values is not None:
        return call.values
    params = call.params
    for name in statement.lists:
        value = params.get(name)
        if type(value) is list or type(value) is tuple:
            params[name] = _encode(value).decode()
    if call.rows is not None:
        params["rows"] = _encode(call.rows).decode()
    return params


def connect(
    path: str, *, shared: bool = False, statements_kept: int = STATEMENTS_KEPT
) -> apsw.Connection:
    """Opens a connection with the settings of Holdfast. `statements_kept`: the number of calls after which a
    statement that was not among them is prepared again."""
    create_file(path)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(path, flags=flags, statementcachesize=statements_kept)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        # Plans must not depend on bound values: otherwise each new LIMIT replans its statement.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA wal_autocheckpoint = {0 if shared else 4000}")
    except apsw.Error as error:
        raise translated(error, f"SQLite cannot open '{path}'") from error
    return connection


def _use_wal(connection: apsw.Connection) -> None:
    """Switches a new file to WAL. SQLite refuses the switch at once, without its busy timeout, while another
    connection uses the file. The lock of an exclusive transaction does wait, so the retry comes after it."""
    for left in reversed(range(WAL_ATTEMPTS)):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if not left:
                raise
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("ROLLBACK")


def check_present(path: str) -> None:
    """Raises an error unless the file is a store with this schema. Never changes the file."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(path, flags=flags)
        try:
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            is_store = "SELECT 1 FROM sqlite_master WHERE name = ?"
            has_table = connection.execute(is_store, (schema.NAME,)).fetchall()
            done = applied(connection) if has_table else {}
        finally:
            connection.close()
    except apsw.Error as error:
        raise translated(error, f"SQLite cannot open '{path}'") from error
    if missing := schema.pending(load_migrations(PACKAGE), done):
        raise schema.not_created(done, missing, where=f"the SQLite file '{path}'")


def applied(connection: apsw.Connection) -> dict[int, str]:
    """The checksums of the migrations that the file has, by number."""
    rows = connection.execute(schema.APPLIED).fetchall()
    return {int(str(row[0])): str(row[1]) for row in rows}


def create_file(path: str) -> None:
    """Creates the file with access for its owner only, because it contains payloads. SQLite gives its other
    files the same mode. An existing file keeps its mode, so a file created in advance can be shared."""
    if path and path != ":memory:" and not path.startswith("file:"):
        with suppress(OSError):  # The file exists, or SQLite reports what is wrong with the path.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def migrate(connection: apsw.Connection) -> None:
    """Migrates the schema in one transaction. Other processes wait for it."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(schema.TABLE)
        for migration in schema.pending(load_migrations(PACKAGE), applied(connection)):
            connection.execute(migration.text)
            connection.execute(
                "INSERT INTO holdfast_migration VALUES (?, ?, ?)",
                (migration.number, migration.name, migration.checksum),
            )
        connection.execute("COMMIT")
    except apsw.Error as error:
        rollback(connection)
        raise translated(error, "the schema of the SQLite store could not be migrated") from error
    except HoldfastError:
        rollback(connection)
        raise


def end_copied_epoch(connection: apsw.Connection) -> None:
    """Starts a new epoch of the feed in a backup that is opened as a store: what was committed after it is
    lost, so the positions of readers do not count here."""
    if connection.execute(IS_COPIED).fetchall():
        connection.execute(END_COPIED)


def rollback(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def run(connection: apsw.Connection, script: Script[T]) -> T:
    """Runs a script to its end on this connection."""
    try:
        statement = next(script)
        while True:
            statement = script.send(execute(connection, statement))
    except StopIteration as end:
        value: T = end.value
        return value


def transact(connection: apsw.Connection, work: Callable[[apsw.Connection], T]) -> T:
    """Runs the work in a transaction. After an error the caller rolls back."""
    connection.execute("BEGIN IMMEDIATE")
    value = work(connection)
    connection.execute("COMMIT")
    return value


def run_alone(connection: apsw.Connection, make: Callable[[], Script[T]]) -> T:
    """Runs one script in a transaction, like `transact`."""
    return transact(connection, lambda writer: run(writer, make()))


def execute_alone(connection: apsw.Connection, call: StatementCall) -> Rows:
    """Like `run_alone`, for one statement: in one call of SQLite, if it returns no rows."""
    statement = statements()[call.name]
    if not statement.alone:
        return run_alone(connection, lambda: one(call))
    values = bind(statement, call) if call.values is None else call.values
    connection.execute(statement.alone, values)
    return [connection.changes()]


def execute(connection: apsw.Connection, call: StatementCall) -> Rows:
    """Returns the rows of a read, or the number of changed rows of a write."""
    statement = statements()[call.name]
    cursor = connection.execute(statement.text, bind(statement, call))
    answer = statement.answer
    if answer == "count":
        return [connection.changes()]
    rows = cursor.fetchall()
    if answer == "rows":
        return rows
    document = str(rows[0][0])
    return _tasks.decode(document) if answer == "tasks" else _rows.decode(document)


def translated(error: apsw.Error, what: str) -> StoreUnavailable:
    """Translates an error of SQLite. `what`: the operation that failed."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy(f"{what}: another process is writing; try again ({error})")
    if isinstance(error, apsw.FullError):
        return DiskFull(f"{what}: the disk is full; free some space ({error})")
    if isinstance(error, apsw.CantOpenError):
        return StoreUnavailable(
            f"{what}: the file or its folder cannot be opened; check the path ({error})"
        )
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return StoreUnavailable(f"{what}: the file is not a sound SQLite database ({error})")
    return StoreUnavailable(f"{what}: {error}")
