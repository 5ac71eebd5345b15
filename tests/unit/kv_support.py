"""The key-value store in memory, with a clock that the test moves."""

from __future__ import annotations

import pytest

from holdfast.primitives.kv import (
    RedisKV,
)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kv(clock: Clock) -> RedisKV:
    return RedisKV(clock)


def scanned(kv: RedisKV, match: str | None = None, count: int = 10) -> list[str]:
    found, cursor = [], 0
    while True:
        cursor, page = kv.scan(cursor, match, count)
        found += page
        if cursor == 0:
            return found
