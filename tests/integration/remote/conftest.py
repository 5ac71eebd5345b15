"""A gateway process on each database that processes can share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.backends import SHARED, url_of
from tests.integration.remote import app
from tests.integration.remote.support import TRANSPORTS, Server, server


@pytest.fixture(autouse=True)
def no_marks() -> None:
    """Handlers of the tests before have set marks."""
    app.marks.clear()


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """How workers reach their gateway."""
    chosen: str = request.param
    return chosen


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def gateway(tmp_path: Path, url: str) -> AsyncIterator[Server]:
    """One transport on each database."""
    async with server(tmp_path, url) as made:
        made.transport = "grpc" if url.startswith("postgres") else "holdfast"
        yield made


@pytest.fixture
async def sqlite_gateway(tmp_path: Path, transport: str) -> AsyncIterator[Server]:
    """For tests that do not depend on the database."""
    async with server(tmp_path, f"sqlite:///{tmp_path}/holdfast.db") as made:
        made.transport = transport
        yield made
