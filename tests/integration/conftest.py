"""A database for each test, on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from holdfast.core import claiming
from tests.backends import SHARED, SQL, url_of

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture(params=SQL)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """For tests of one process."""
    return url_of(request.param, request, tmp_path)


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """For tests of several processes."""
    return url_of(request.param, request, tmp_path)


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """A journal that handlers write to."""
    return str(tmp_path / "runs")


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle dispatcher looks again only when it is woken, or when a known task is due."""
    monkeypatch.setattr(claiming, "PUSHED_POLL_SECONDS", 3_600.0)


@pytest.fixture
async def connection(pg_dsn: str) -> AsyncIterator[Connection]:
    """A connection of the caller to the database of its queue."""
    opened = await asyncpg.connect(pg_dsn)
    yield opened
    await opened.close()
