"""Selects the migrations to run, and refuses a store that does not fit this code.

Promises: migrations are numbered, verified by checksum, and forward only. A store with a newer schema is not
changed. Each migration commits with its row in `holdfast_migration`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.errors import HoldfastError, SchemaMismatch, StoreUnavailable
from holdfast.store.sql import Migration

NAME = "holdfast_migration"
TABLE = """CREATE TABLE IF NOT EXISTS holdfast_migration (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)"""
APPLIED = "SELECT number, checksum FROM holdfast_migration ORDER BY number"


class OldSchema(SchemaMismatch):
    """The store is of an earlier version, which this one upgrades."""


def pending(migrations: Sequence[Migration], applied: Mapping[int, str]) -> list[Migration]:
    """Returns the migrations to run. Raises SchemaMismatch if the store belongs to another version."""
    for migration in migrations:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise SchemaMismatch(
                f"migration {migration.number} ({migration.name}) was applied in another form: "
                "the store belongs to a different build of holdfast"
            )
    newest = max((migration.number for migration in migrations), default=0)
    if applied and max(applied) > newest:
        raise SchemaMismatch(
            f"the store has schema {max(applied)}, this version of holdfast supports {newest}: "
            "upgrade holdfast, or use another database"
        )
    return [migration for migration in migrations if migration.number not in applied]


def not_created(
    applied: Mapping[int, str] | None, missing: Sequence[Migration], *, where: str
) -> HoldfastError:
    """The error of a caller that may not create or upgrade the store."""
    if not applied:
        return StoreUnavailable(
            f"there is no Holdfast store in {where}: start a worker, which creates it, or give the right URL"
        )
    return OldSchema(
        f"the store has schema {max(applied)}, this version of holdfast needs {missing[-1].number}: start a "
        "worker of this version, which upgrades it"
    )
