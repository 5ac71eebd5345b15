"""The database that a caller's connection leads to, when the queue's own one changes."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from holdfast.store.postgres import connection as postgres
from holdfast.store.postgres.identity import Identity, is_other, merged
from holdfast.store.script import StatementCall


class Leading:
    """A connection to a database with this identity."""

    def __init__(self, identity: str) -> None:
        self.identity = identity


async def answer(connection: Any, call: StatementCall) -> list[tuple[str]]:
    return [(connection.identity,)]


async def test_a_connection_is_asked_again_when_ours_leads_to_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A caller may still hold a connection to the server that was the primary."""
    monkeypatch.setattr(postgres, "execute", answer)
    identity = Identity()
    old, new = cast(Any, Leading("7-00000001-5-9")), cast(Any, Leading("7-00000002-5-9"))
    await identity.adopt(old)
    assert await identity.is_same(old)
    await identity.adopt(old)
    assert await identity.is_same(old)
    await identity.adopt(new)
    assert not await identity.is_same(old)
    assert await identity.is_same(new)


WHOLE = st.tuples(*(st.sampled_from("12"),) * 4).map("-".join)
LESS = WHOLE.flatmap(lambda whole: st.sampled_from([whole, whole[4:], whole[:2] + whole[3:]]))
"""As a role without rights sees it, and as one does on a standby, which has no timeline."""


@given(WHOLE, st.permutations([0, 4]), st.sampled_from([0, 4]))
def test_roles_with_different_rights_agree(whole: str, cuts: list[int], again: int) -> None:
    """In any order, the most complete answer stays."""
    stored = ""
    for cut in [*cuts, again]:
        assert not is_other(stored, whole[cut:])
        stored = merged(stored, whole[cut:])
    assert stored == whole


@given(LESS, LESS)
def test_what_both_know_decides(before: str, found: str) -> None:
    assert is_other(before, found) == is_other(found, before)
    assert not is_other(found, merged(before, found))
    if is_other(before, found):
        assert merged(before, found) == found
    else:
        assert len(merged(before, found)) >= max(len(before), len(found))


def test_a_part_that_both_know_differently_is_another_database() -> None:
    assert is_other("7-00000001-5-9", "7-00000002-5-9")
    assert is_other("7-00000001-5-9", "5-8")
    assert not is_other("7-00000001-5-9", "7--5-9")
    assert not is_other("7-00000001-5-9", "5-9")
    assert merged("5-9", "7-00000001-5-9") == "7-00000001-5-9"
    assert merged("5-9", "5-9") == "5-9"
