"""Connections to PostgreSQL: their settings, and scripts that run on them.

Promises: plans do not depend on statistics, because the table of a queue is empty at one moment and full at
the next. No statement waits long for a lock.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import asyncpg

from holdfast.core.address import shown_url
from holdfast.errors import BadConfig, InvalidInput, MissingPrivilege, StoreUnavailable
from holdfast.store.columns import Column, to_task
from holdfast.store.postgres.direct import DirectConnection
from holdfast.store.script import Rows, Script, StatementCall
from holdfast.store.sql import Statement, Statements, only_reads

T = TypeVar("T")
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
PACKAGE: Final = "holdfast.store.postgres"
CONNECT_SECONDS: Final = 10.0
COMMAND_SECONDS: Final = 20.0
TRANSACTION_SECONDS: Final = 60.0
ROWS_MAX: Final = 1_000
"""Rows of one statement at most. `COMMAND_SECONDS` is many times what a slow disk needs for them."""
SETTINGS: Final = {
    "application_name": "holdfast",
    # After a wait for a row, a statement must see its new version. The database may have another default.
    "default_transaction_isolation": "read committed",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "idle_in_transaction_session_timeout": "5000",  # A frozen client would block others with its locks.
    "jit": "off",
    # Callers' transactions may stay open for minutes. A statement that waits for one occupies a connection.
    "lock_timeout": "2000",
    "plan_cache_mode": "force_generic_plan",
    # The driver limits every statement itself. A limit of the database, meant for an application, may be
    # too short for a migration, or for a wait for a task that another transaction holds.
    "statement_timeout": "0",
}
SYNCED: Final = """
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
"""
WHOLE_FLOATS: Final = """
SELECT set_config('extra_float_digits', '1', false)
WHERE current_setting('extra_float_digits')::int < 1
"""
"""Times in JSON have all their digits."""
GONE: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # asyncpg raises it on a connection that ended unnoticed
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # became a standby: the next connection may reach the primary
)
STRAINED: Final = (
    asyncpg.InsufficientResourcesError,  # the disk is full, no memory is left
    asyncpg.OperatorInterventionError,  # an operator or a time limit cancelled the statement
    asyncpg.LockNotAvailableError,
    asyncpg.PostgresSystemError,
    asyncpg.InsufficientPrivilegeError,
)
"""The server cannot run the statement now. The connection itself is intact."""
UNKNOWN_OPTIONS: Final = (
    asyncpg.UndefinedObjectError,  # there is no such setting
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
)
"""The address sets what the server does not let a client set."""
_NAME: Final = re.compile(r"(?<!:):([a-z_]+)")


class PostgresStatement(NamedTuple):
    """A statement with numbered parameters."""

    text: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    returns: str
    pick: Callable[[dict[str, Any]], tuple[Any, ...]]
    """Selects the values in order, from values by name."""
    writes: bool
    """Whether it may write. A transaction with such a statement stores a proof of its commit."""


@cache
def statements() -> Statements[PostgresStatement]:
    return Statements("postgres", _rows_macro, _prepared)


def _rows_macro(columns: tuple[Column, ...]) -> str:
    arrays = ", ".join(f":r_{column.name}::{column.type}[]" for column in columns)
    names = ", ".join(column.name for column in columns)
    # A LIMIT by parameter makes the planner expect few rows. It then always starts from them and looks
    # each up by key, regardless of the statistics of the table.
    return f"(SELECT * FROM unnest({arrays}) AS u({names}) LIMIT :r_count::int) AS r"


def _prepared(statement: Statement) -> PostgresStatement:
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

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
    """Returns the parameters by number. Rows become one array for each column."""
    if call.values is not None:
        return call.values
    values = call.params
    if call.rows is not None:
        values = dict(values)
        values["r_count"] = len(call.rows)
        arrays = zip(*call.rows, strict=True)
        for column, array in zip(prepared.columns, arrays, strict=True):
            values[f"r_{column.name}"] = array
    return prepared.pick(values)


async def execute(connection: Connection, call: StatementCall) -> Rows:
    """Runs a statement and returns its rows. Many input rows are split into several statements, each with a
    separate time limit: the limit is for a server that hangs, not for large work."""
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
    try:
        if call.values is not None and connection.__class__ is DirectConnection:
            await connection.run_frequent(prepared.text, call.values)
            return []
        records = await connection.fetch(prepared.text, *bind(prepared, call))
    except asyncpg.CharacterNotInRepertoireError:
        raise InvalidInput(
            "a text of the request has a NUL character, which PostgreSQL cannot store: leave it out"
        ) from None
    except asyncpg.UntranslatableCharacterError as error:
        raise InvalidInput(
            "a text of the request has a character that this database cannot store: leave it out, or move "
            f"to a database with the encoding UTF8 ({error})"
        ) from None
    if prepared.returns == "task":
        return [to_task(record) for record in records]
    return records


async def run(connection: Connection, script: Script[T]) -> T:
    """Runs a script to its end on this connection. No statement is in progress when this returns."""
    sent: asyncio.Task[Rows] | None = None
    try:
        statement = next(script)
        while True:
            if sent is not None:
                await sent
                sent = None
            if statement.ahead:
                sent = asyncio.create_task(execute(connection, statement))
                await _leave()
                statement = script.send([])
            else:
                statement = script.send(await execute(connection, statement))
    except StopIteration as end:
        value: T = end.value
        if sent is not None:
            await sent
        return value
    except BaseException:
        if sent is not None:
            await asyncio.gather(sent, return_exceptions=True)
        raise


async def _leave() -> None:
    """Lets the bytes of a statement leave. An event loop may write only at the end of its turn, and the
    statement begins in the next one."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def connect(dsn: str) -> Connection:
    try:
        connection = await asyncpg.connect(
            dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=COMMAND_SECONDS,
            server_settings=dict(SETTINGS),
            connection_class=DirectConnection,
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
    except UNKNOWN_OPTIONS as error:
        raise BadConfig(
            f"PostgreSQL does not accept an option of the address: correct what follows the ? ({error})"
        ) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise lacking(error) from error
    except asyncpg.ClientConfigurationError as error:
        raise BadConfig(f"PostgreSQL cannot be reached with these options: {error}") from None
    except (ValueError, OverflowError):
        # OverflowError: a port in the options is out of range. The text may contain a part of the password.
        raise BadConfig(f"the address {shown_url(dsn)} cannot be read: check its parts") from None
    except GONE as error:
        if "unsupported startup parameter" in str(error):  # a server has all of them
            raise BadConfig(
                f"a pooler such as PgBouncer refuses the session that Holdfast needs ({error}): connect to "
                "PostgreSQL directly, or see docs/howto/postgresql.md"
            ) from error
        raise StoreUnavailable(
            f"PostgreSQL cannot be reached: is it running, is the address right? ({error})"
        ) from error
    except STRAINED as error:
        raise StoreUnavailable(
            f"PostgreSQL ended a new session: try again later ({error})"
        ) from error
    except asyncpg.PostgresError as error:
        raise StoreUnavailable(f"PostgreSQL refused a new session: {error}") from error


def lacking(error: asyncpg.InsufficientPrivilegeError) -> MissingPrivilege:
    return MissingPrivilege(
        f"the role of the address lacks a privilege: {error}; grant it (docs/howto/postgresql.md)"
    )


async def _settle_in(connection: Connection) -> None:
    """Applies the settings that depend on the server. An acknowledged write is synced, also if the database
    or the role says otherwise; a stronger setting stays. So it is with the digits of times. On PostgreSQL 17
    a time limit for transactions releases the locks of a client that froze within a statement."""
    settings = f"{SYNCED}; {WHOLE_FLOATS}"
    if connection.get_server_version().major >= 17:
        settings += f"; SET transaction_timeout = '{TRANSACTION_SECONDS:g}s'"
    try:
        await connection.execute(settings)
    except BaseException:
        connection.terminate()
        raise
