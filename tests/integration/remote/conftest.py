"""A gateway process on each database that processes can share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.backends import SHARED, url_of
from tests.integration.remote.support import Server, server


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def gateway(tmp_path: Path, url: str) -> AsyncIterator[Server]:
    async with server(tmp_path, url) as made:
        yield made


@pytest.fixture
async def sqlite_gateway(tmp_path: Path) -> AsyncIterator[Server]:
    """For tests that do not depend on the database."""
    async with server(tmp_path, f"sqlite:///{tmp_path}/holdfast.db") as made:
        yield made
