"""Creates and upgrades the tables on PostgreSQL.

Promises: an up-to-date store is only read, so a role without the privilege to create tables can use it. One
process migrates at a time, and the limits of other statements do not end it. Never: creates or changes a
table unless `create` is set.
"""

from __future__ import annotations

from typing import Final

import asyncpg

from holdfast.errors import MissingPrivilege, StoreUnavailable
from holdfast.store import schema
from holdfast.store.postgres import connection as postgres
from holdfast.store.sql import Migration, load_migrations

MIGRATION_LOCK: Final = 0x686F6C6466617374  # "holdfast"
MIGRATION_SECONDS: Final = 86_400.0
"""One migration, e.g. a new index of a large table, or the wait for another process that migrates."""


async def migrate(connection: postgres.Connection, *, create: bool = True) -> None:
    """Runs the migrations that the store lacks. Without `create`, raises an error if it lacks any."""
    applied = await _applied(connection)
    missing = schema.pending(load_migrations(postgres.PACKAGE), applied or {})
    if not missing:
        return
    if not create:
        raise schema.not_created(applied, missing, where="this database and search_path")
    try:
        await _run_pending(connection)
    except asyncpg.InsufficientPrivilegeError as error:
        raise await _may_not_create(connection, error) from error
    except asyncpg.InvalidSchemaNameError as error:
        raise StoreUnavailable(
            "PostgreSQL finds no schema for the tables of Holdfast: create the schema that search_path "
            f"names, or change search_path ({error})"
        ) from error


async def _applied(connection: postgres.Connection) -> dict[int, str] | None:
    """The applied migrations by number. None if there is no store."""
    if await connection.fetchval(f"SELECT to_regclass('{schema.NAME}')") is None:
        return None
    return {row[0]: row[1] for row in await connection.fetch(schema.APPLIED)}


async def _run_pending(connection: postgres.Connection) -> None:
    async with connection.transaction():
        await connection.execute("SET LOCAL lock_timeout = 0")
        if connection.get_server_version().major >= 17:
            await connection.execute("SET LOCAL transaction_timeout = 0")
        await connection.execute(
            f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})", timeout=MIGRATION_SECONDS
        )
        applied = await _applied(connection)
        if applied is None:
            await connection.execute(schema.TABLE)
        for migration in schema.pending(load_migrations(postgres.PACKAGE), applied or {}):
            await _run(connection, migration)


async def _run(connection: postgres.Connection, migration: Migration) -> None:
    await connection.execute(migration.text, timeout=MIGRATION_SECONDS)
    await connection.execute(
        "INSERT INTO holdfast_migration VALUES ($1, $2, $3)",
        migration.number,
        migration.name,
        migration.checksum,
    )


async def _may_not_create(
    connection: postgres.Connection, error: asyncpg.InsufficientPrivilegeError
) -> MissingPrivilege:
    role, place = await connection.fetchrow(
        "SELECT current_user::text, current_schema()::text"
    ) or ("", "")
    return MissingPrivilege(
        f"the role '{role}' may not create or upgrade the tables of Holdfast in schema '{place}': run "
        f"`holdfast db migrate` as the role that owns them, or GRANT CREATE ON SCHEMA {place} TO {role} "
        f"({error})"
    )
