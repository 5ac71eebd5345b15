"""The statements of the SSH driver."""

from __future__ import annotations

from typing import Final

from holdfast.core.fleet.model import AFTER_SLOTS, SLOT
from holdfast.store.script import Script, call, statements_of

ORPHANS_MAX: Final = 200
"""Hosts without a driver that one look takes up."""


own: Final = statements_of("holdfast.fleet.ssh")
"""Names the statements of this package."""


def orphans(before: float) -> Script[list[str]]:
    """Hosts of the driver whose slot is held and that were last heard of before this time."""
    rows = yield call(
        own("orphans"),
        first=SLOT,
        last=AFTER_SLOTS,
        before=before,
        limit=ORPHANS_MAX,
    )
    return [host_id for (host_id,) in rows]
