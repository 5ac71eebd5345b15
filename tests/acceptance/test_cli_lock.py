"""`holdfast lock`, on both stores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.primitives.locks import Lease, Locks, LossReason
from tests.acceptance.cli_support import Cli, run_inside
from tests.backends import SHARED, url_of


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def lease(url: str) -> AsyncIterator[Lease]:
    async with Locks.connect(url, owner="worker-1") as locks:
        yield await locks.acquire("host:42", ttl=600)


async def test_locks_are_listed_shown_and_revoked(lease: Lease, url: str, tmp_path: Path) -> None:
    def said(*args: str) -> str:
        done = run_inside(tmp_path, "--url", url, "lock", *args)
        assert done.code == 0, done
        return done.out

    def look() -> None:
        assert said("list", "-o", "name") == "host:42\n"
        [listed] = as_json(said("list", "-o", "json"))
        assert (listed["owner"], listed["fence"], listed["held"]) == ("worker-1", 1, True)
        assert "worker-1" in said("list")
        assert "held by worker-1" in said("show", "host:42")
        assert as_json(said("show", "host:42", "-o", "json"))["waiters"] == []
        revoked = Cli(tmp_path, url).json("lock", "revoke", "host:42", "--reason", "gone")
        assert (revoked["fence"], revoked["reason"], revoked["owner"]) == (2, "gone", "worker-1")

    await asyncio.to_thread(look)
    await lease.lost.wait()
    assert lease.lost.reason is LossReason.REVOKED

    def look_again() -> None:
        shown = as_json(said("show", "host:42", "-o", "json"))
        assert (shown["held"], shown["audit"][0]["reason"]) == (False, "gone")
        assert shown["audit"][0]["actor"].startswith("cli:")
        assert "revoked by cli:" in said("show", "host:42")
        for verb in ("revoke host:42", "show unknown"):
            assert run_inside(tmp_path, "--url", url, "lock", *verb.split()).code == 5

    await asyncio.to_thread(look_again)


def as_json(text: str) -> Any:
    return json.loads(text)
