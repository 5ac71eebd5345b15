"""Runs scripts in the transaction of a caller.

Promises: failures are typed errors. If two transactions insert the same key, a savepoint keeps the caller's
transaction valid, and the second insert is answered as if it had come later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import asyncpg

from holdfast.errors import Conflict, InvalidInput, StoreUnavailable
from holdfast.store.port import RowHeld
from holdfast.store.postgres import connection as postgres
from holdfast.store.script import Script

T = TypeVar("T")
TRIES: Final = 3


def checked(connection: object) -> postgres.Connection:
    """Checks that this is a connection with an open transaction, and returns it without the proxy of a
    pool."""
    if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
        raise InvalidInput(
            f"{type(connection).__name__} cannot carry the enqueue: "
            "pass an asyncpg connection with an open transaction"
        )
    if not connection.is_in_transaction():
        raise InvalidInput(
            "the connection has no open transaction: use `async with connection.transaction():`"
        )
    # Check for the proxy first: `isinstance` takes it for a connection too.
    if isinstance(connection, asyncpg.pool.PoolConnectionProxy):
        inner: postgres.Connection = connection._con  # type: ignore[attr-defined]
        return inner
    return connection


async def run(
    connection: postgres.Connection, make: Callable[[], Script[T]], *, may_clash: bool
) -> T:
    """Runs a script. A savepoint costs two round trips, so it is used only if a key may clash."""
    if may_clash:
        return await _run_saved(connection, make)
    return await postgres.run(connection, make())


@contextmanager
def translated() -> Iterator[None]:
    """Translates errors of PostgreSQL on the caller's connection."""
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        raise Conflict(
            "another transaction has inserted the same key or id at the same time, and this one does not see "
            "it: roll back and try again"
        ) from error
    except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError) as error:
        raise Conflict(
            f"the caller's transaction lost a race: roll back and try again ({error})"
        ) from error
    except asyncpg.InFailedSQLTransactionError as error:
        raise InvalidInput(
            "the caller's transaction has already failed: roll it back and start again"
        ) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise postgres.lacking(error) from error
    except asyncpg.LockNotAvailableError as error:
        raise _held(error) from error
    except TimeoutError as error:
        raise _held("it took too long") from error
    except (*postgres.GONE, *postgres.STRAINED) as error:
        raise StoreUnavailable(
            f"PostgreSQL did not run the statement: roll back and try again ({error!r})"
        ) from error


def _held(why: object) -> RowHeld:
    return RowHeld(
        "another open transaction holds a row that the caller's transaction needs, e.g. the same key: "
        f"roll back and try again when it has ended, or find it in pg_stat_activity ({why})"
    )


async def _run_saved(connection: postgres.Connection, make: Callable[[], Script[T]]) -> T:
    """Retries the script when another transaction has committed the same key, which it then sees."""
    for attempt in range(1, TRIES + 1):
        try:
            async with connection.transaction():
                return await postgres.run(connection, make())
        except asyncpg.UniqueViolationError:
            if attempt == TRIES:
                raise
    raise AssertionError("unreachable")
