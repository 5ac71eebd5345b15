"""Which database a caller's connection leads to, when ours changes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast.store.postgres import connection as postgres
from holdfast.store.postgres.identity import Identity
from holdfast.store.script import Call


class Leading:
    """A connection to a database with this identity."""

    def __init__(self, identity: str) -> None:
        self.identity = identity


async def answer(connection: Any, call: Call) -> list[tuple[str]]:
    return [(connection.identity,)]


async def test_a_connection_is_asked_again_when_ours_leads_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A caller may still hold a connection to the server that was the primary."""
    monkeypatch.setattr(postgres, "execute", answer)
    identity = Identity()
    old, new = cast(Any, Leading("old primary")), cast(Any, Leading("promoted standby"))
    await identity.adopt(old)
    assert await identity.is_same(old)
    await identity.adopt(old)
    assert await identity.is_same(old)
    await identity.adopt(new)
    assert not await identity.is_same(old)
    assert await identity.is_same(new)
