"""The ledger over every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.clock import VirtualClock
from holdfast.primitives.idempotency import Ledger
from tests.backends import LEASES, url_of
from tests.conformance.ledger.support import Many


@pytest.fixture(params=LEASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


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
