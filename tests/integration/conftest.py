"""A database for each test, on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from holdfast.engine import dispatcher

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture(params=["memory", "file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """For tests of one process."""
    return address(request, tmp_path, request.param)


@pytest.fixture(params=["file", "postgres"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """For tests of several processes."""
    return address(request, tmp_path, request.param)


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """A journal that handlers write to."""
    return str(tmp_path / "runs")


def address(request: pytest.FixtureRequest, folder: Path, kind: str) -> str:
    if kind == "memory":
        return "sqlite://"
    if kind == "file":
        return f"sqlite:///{folder}/queue.db"
    dsn: str = request.getfixturevalue("pg_dsn")
    return dsn


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle dispatcher looks again only when it is woken, or when a task that it knows of is due."""
    monkeypatch.setattr(dispatcher, "PUSHED_POLL_SECONDS", 3_600.0)


@pytest.fixture
async def connection(pg_dsn: str) -> AsyncIterator[Connection]:
    """Of a caller, to the same database as its queue."""
    made = await asyncpg.connect(pg_dsn)
    yield made
    await made.close()
