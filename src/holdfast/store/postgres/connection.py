"""Connections to PostgreSQL: settings, and running a script on one of them.

Promises: plans that do not depend on statistics (a queue's table is empty one moment and full the next); no
statement waits long for a lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import asyncpg

from holdfast.core.address import shown_url
from holdfast.errors import BadConfig, StoreUnavailable
from holdfast.store.columns import Column, to_task
from holdfast.store.script import Rows, Script, StatementCall
from holdfast.store.sql import Statement, Statements, only_reads

T = TypeVar("T")
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
PACKAGE: Final = "holdfast.store.postgres"
CONNECT_SECONDS: Final = 10.0
COMMAND_SECONDS: Final = 20.0
TRANSACTION_SECONDS: Final = 60.0
ROWS_MAX: Final = 1_000
"""Rows that one statement takes. So `COMMAND_SECONDS` is many times what a slow disk needs for it."""
SETTINGS: Final = {
    "application_name": "holdfast",
    # Statements wait for a row and then go on with what it is now, whatever the database's default is.
    "default_transaction_isolation": "read committed",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "idle_in_transaction_session_timeout": "5000",  # a client that froze holds locks that all need
    "jit": "off",
    # Transactions of callers may stay open for minutes. A statement that waits for one keeps a connection.
    "lock_timeout": "2000",
    "plan_cache_mode": "force_generic_plan",
    # Every statement has its limit here already. One of the database's, meant for an application, may be
    # shorter than a migration takes, or than a wait for a task that another transaction holds.
    "statement_timeout": "0",
}
SYNCED: Final = """
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
"""
GONE: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what asyncpg says of a connection that ended unnoticed
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # it became a standby: the next connection may find the primary
)
STRAINED: Final = (
    asyncpg.InsufficientResourcesError,  # the disk is full, no memory is left
    asyncpg.OperatorInterventionError,  # an operator or a time limit cancelled the statement
    asyncpg.LockNotAvailableError,
    asyncpg.PostgresSystemError,
)
"""The server cannot do it now; the connection itself is sound."""
_NAME: Final = re.compile(r"(?<!:):([a-z_]+)")


class PostgresStatement(NamedTuple):
    """A statement with numbered parameters."""

    text: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    returns: str
    pick: Callable[[dict[str, Any]], tuple[Any, ...]]
    """The values in order, out of those by name."""
    writes: bool
    """Or may write: a transaction of such statements leaves a proof of its commit."""


@cache
def statements() -> Statements[PostgresStatement]:
    return Statements("postgres", _rows_macro, _prepared)


def _rows_macro(columns: tuple[Column, ...]) -> str:
    arrays = ", ".join(f":r_{column.name}::{column.type}[]" for column in columns)
    names = ", ".join(column.name for column in columns)
    # A LIMIT by parameter makes the planner expect few rows, so it always starts from them and looks
    # each up by key, whatever the statistics say of the table.
    return f"(SELECT * FROM unnest({arrays}) AS u({names}) LIMIT :r_count::int) AS r"


def _prepared(statement: Statement) -> PostgresStatement:
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = _NAME.sub(number, statement.text)
    return PostgresStatement(
        text,
        tuple(names),
        statement.columns,
        statement.returns,
        _picker(names),
        not only_reads(text),
    )


def _picker(names: list[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)


def bind(prepared: PostgresStatement, call: StatementCall) -> tuple[Any, ...]:
    """Parameters by number; rows become one array for each column."""
    values = call.params
    if call.rows is not None:
        values = dict(values)
        values["r_count"] = len(call.rows)
        arrays = zip(*call.rows, strict=True)
        for column, array in zip(prepared.columns, arrays, strict=True):
            values[f"r_{column.name}"] = array
    return prepared.pick(values)


async def execute(connection: Connection, call: StatementCall) -> Rows:
    """The statement's rows. Many rows of the caller go in parts, each a statement with a time limit of its
    own: the limit is for a server that hangs, not for work that is large."""
    if call.rows is not None and len(call.rows) > ROWS_MAX:
        parts = range(0, len(call.rows), ROWS_MAX)
        return [
            row
            for start in parts
            for row in await execute(
                connection,
                StatementCall(call.name, call.params, call.rows[start : start + ROWS_MAX]),
            )
        ]
    prepared = statements()[call.name]
    records = await connection.fetch(prepared.text, *bind(prepared, call))
    if prepared.returns == "task":
        return [to_task(record) for record in records]
    return records


async def run(connection: Connection, script: Script[T]) -> T:
    """Drives a script to its end on this connection."""
    try:
        wanted = next(script)
        while True:
            wanted = script.send(await execute(connection, wanted))
    except StopIteration as end:
        value: T = end.value
        return value


async def connect(dsn: str) -> Connection:
    try:
        connection = await asyncpg.connect(
            dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=COMMAND_SECONDS,
            server_settings=dict(SETTINGS),
        )
        await _settle_in(connection)
        return connection
    except asyncpg.InvalidCatalogNameError as error:
        raise StoreUnavailable(
            f"PostgreSQL has no such database: create it first ({error})"
        ) from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise StoreUnavailable(
            f"PostgreSQL refused the login: check user and password ({error})"
        ) from error
    except asyncpg.ClientConfigurationError as error:
        raise BadConfig(f"PostgreSQL cannot be reached with these options: {error}") from None
    except (ValueError, OverflowError):
        # OverflowError: a port among the options is out of range. The text may hold a part of the password.
        raise BadConfig(f"the address {shown_url(dsn)} cannot be read: check its parts") from None
    except GONE as error:
        raise StoreUnavailable(
            f"PostgreSQL cannot be reached: is it running, is the address right? ({error})"
        ) from error
    except STRAINED as error:
        raise StoreUnavailable(
            f"PostgreSQL broke off a new session: try again later ({error})"
        ) from error


async def _settle_in(connection: Connection) -> None:
    """Settings that depend on the server's. An acknowledged write is synced, also where the database or the
    role says otherwise; a stronger setting is kept. And also a client that froze within a statement gives
    back its locks some time (PostgreSQL 17)."""
    settings = SYNCED
    if connection.get_server_version().major >= 17:
        settings += f"; SET transaction_timeout = '{TRANSACTION_SECONDS:g}s'"
    try:
        await connection.execute(settings)
    except BaseException:
        connection.terminate()
        raise
