"""The second server that speaks Redis' protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proof.lab.servers import Redis, valkey_binary


@pytest.fixture(scope="module")
def valkey() -> Iterator[Redis]:
    with Redis(binary=valkey_binary()) as server:
        yield server
