"""The ledger over every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.clock import VirtualClock
from holdfast.primitives.idempotency import (
    Ledger,
)
from tests.conformance.ledger.support import (
    Many,
)


@pytest.fixture(params=["memory", "sqlite-memory", "sqlite-file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite-memory":
            return "sqlite://"
        case "sqlite-file":
            return f"sqlite:///{tmp_path}/ledger.db"
    dsn: str = request.getfixturevalue("pg_dsn")
    return dsn


@pytest.fixture
async def many(url: str, clock: VirtualClock) -> AsyncIterator[Many]:
    many = Many(url, clock)
    yield many
    await many.close()


@pytest.fixture
async def ledger(many: Many) -> Ledger:
    ledger = many.open("ann")
    await ledger.open()
    return ledger


@pytest.fixture
async def other(many: Many, ledger: Ledger) -> Ledger:
    other = many.open("bob")
    await other.open()
    return other
