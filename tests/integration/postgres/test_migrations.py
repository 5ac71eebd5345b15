"""Migrations on PostgreSQL take as long as they need."""

from __future__ import annotations

import pytest

from holdfast.store import schema
from holdfast.store.postgres import connection as postgres, migrate
from holdfast.store.sql import Migration

SLOW = Migration(9_999, "slow", "SELECT pg_sleep(0.6)")
"""It takes longer than any statement may below."""


async def test_the_limits_of_statements_do_not_end_a_migration(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "COMMAND_SECONDS", 0.3)
    monkeypatch.setattr(postgres, "TRANSACTION_SECONDS", 0.3)
    connection = await postgres.connect(pg_dsn)
    monkeypatch.setattr(schema, "pending", lambda *_: [SLOW])
    await migrate.migrate(connection)
    numbers = [row[0] for row in await connection.fetch("SELECT number FROM holdfast_migration")]
    await connection.close()
    assert SLOW.number in numbers
