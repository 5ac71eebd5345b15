"""A client whose gateway is a function, and whose pauses take no time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import httpx2

from holdfast.client.http import Http
from holdfast.clock import SystemClock
from holdfast.core.ids import Ids

Gateway = Callable[[httpx2.Request], httpx2.Response]


class QuickClock(SystemClock):
    """Keeps the pauses that were asked for, and makes none."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


def http_of(gateway: Gateway, *urls: str, token: str | None = "secret") -> Http:
    return Http(
        urls or ("http://one:8787",),
        token,
        QuickClock(),
        Ids(random.Random(1)),
        transport=httpx2.MockTransport(gateway),
    )
