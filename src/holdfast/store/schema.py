"""Migrations: which to run, and when to refuse.

Promises: numbered, checked by checksum, forward only. A store that is newer than this code is not
touched. Each migration commits with its row in `holdfast_migration`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.errors import SchemaMismatch
from holdfast.store.sql import Migration

TABLE = """CREATE TABLE IF NOT EXISTS holdfast_migration (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)"""
APPLIED = "SELECT number, checksum FROM holdfast_migration ORDER BY number"


def pending(known: Sequence[Migration], applied: Mapping[int, str]) -> list[Migration]:
    """The migrations to run, or SchemaMismatch."""
    newest = max((migration.number for migration in known), default=0)
    if applied and max(applied) > newest:
        raise SchemaMismatch(
            f"the store has schema {max(applied)}, this version of holdfast knows {newest}: "
            "upgrade holdfast, or use another database"
        )
    for migration in known:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise SchemaMismatch(
                f"migration {migration.number} ({migration.name}) was applied in another form: "
                "the store belongs to a different build of holdfast"
            )
    return [migration for migration in known if migration.number not in applied]
