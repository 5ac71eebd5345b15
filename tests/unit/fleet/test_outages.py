"""What servers of the fleet log while the store is away: a line without a traceback."""

from __future__ import annotations

import asyncio
import logging
import random
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.ids import Ids
from holdfast.errors import StoreUnavailable
from holdfast.fleet.loops import OutboxLoop
from holdfast.fleet.ssh.driver import SshDriver


class Slept(Exception):
    """The loop has gone to sleep."""


class OneRound(VirtualClock):
    async def sleep(self, seconds: float) -> None:
        raise Slept


async def away(*_: object) -> Any:
    raise StoreUnavailable("PostgreSQL cannot be reached")


def check(caplog: pytest.LogCaptureFixture) -> None:
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert "PostgreSQL cannot be reached" in record.getMessage()


async def test_hosts_without_a_driver(caplog: pytest.LogCaptureFixture) -> None:
    store: Any = SimpleNamespace(read=away, now=lambda: 0.0)
    door: Any = None
    driver = SshDriver(store, door, OneRound(), Ids(random.Random(1)))
    with pytest.raises(Slept):
        await driver._look_after_orphans()
    check(caplog)


async def test_an_execution_in_this_process(caplog: pytest.LogCaptureFixture) -> None:
    store: Any = None
    pipeline: Any = SimpleNamespace(run_execution=away)
    loop = OutboxLoop(VirtualClock(), store, pipeline, FleetRules())
    assert await loop.run_execution("x") is False
    await asyncio.gather(*loop._driving.values())
    check(caplog)
