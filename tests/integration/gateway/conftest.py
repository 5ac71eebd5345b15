"""A gateway without a socket, on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.backends import SHARED, url_of
from tests.integration.gateway.support import Site, open_site


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def site(url: str) -> AsyncIterator[Site]:
    async with open_site(url) as made:
        yield made


@pytest.fixture
async def memory_site() -> AsyncIterator[Site]:
    """For tests that do not depend on the database."""
    async with open_site("sqlite://") as made:
        yield made
