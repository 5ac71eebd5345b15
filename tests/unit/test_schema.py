"""Which migrations run, and the errors for a store of another build."""

from __future__ import annotations

import pytest

from holdfast.errors import SchemaMismatch
from holdfast.store.schema import pending
from holdfast.store.sql import Migration

FIRST, SECOND = (Migration(number, f"step_{number}", f"SELECT {number};") for number in (1, 2))


def test_a_store_of_another_build_is_named_also_when_its_number_is_higher() -> None:
    """An upgrade would not help: the numbers of the two builds mean different things."""
    applied = {1: "another sum", 2: SECOND.checksum, 3: "a sum"}
    with pytest.raises(SchemaMismatch, match="a different build"):
        pending([FIRST, SECOND], applied)


def test_a_newer_store_asks_for_an_upgrade() -> None:
    with pytest.raises(SchemaMismatch, match="upgrade holdfast"):
        pending([FIRST], {1: FIRST.checksum, 2: SECOND.checksum})
