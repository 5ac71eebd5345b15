"""Sweepers remove commit marks in batches, whichever process has left them."""

from __future__ import annotations

import asyncpg
import pytest

from holdfast.engine import pruning, sweeper
from tests.acceptance.apps.jobs import make_queue


async def test_old_marks_of_ended_processes_are_removed(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many short processes leave a few marks each."""
    monkeypatch.setattr(sweeper, "PRUNE_BATCH", 10)
    async with make_queue(pg_dsn, "work") as queue:
        assert queue.parts.sessions.engine is not None
        now = (await queue.open()).store.now()
        hour = pruning.MARK_SECONDS
        numbers = [
            int((now - age) * 1000) << 21 | n for n in range(35) for age in (hour + 9, hour - 9)
        ]
        connection = await asyncpg.connect(pg_dsn)
        try:
            await connection.executemany(
                "INSERT INTO holdfast_commit VALUES ($1)", [(n,) for n in numbers]
            )
            assert await queue.parts.sessions.engine.sweeper._pruning._round(now) is False
            kept = await connection.fetch(
                "SELECT id FROM holdfast_commit WHERE id = ANY($1)", numbers
            )
        finally:
            await connection.close()
        assert sorted(row[0] for row in kept) == sorted(numbers[1::2])
