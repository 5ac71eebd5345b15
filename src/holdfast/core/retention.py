"""How long the store keeps what lies beside tasks."""

from __future__ import annotations

from typing import Final

import msgspec

DAY_SECONDS: Final = 86_400.0


class HubRetention(msgspec.Struct, frozen=True):
    """In seconds."""

    log_seconds: float = 7 * DAY_SECONDS
    """Rows of the sync log."""
    tombstone_seconds: float = 30 * DAY_SECONDS
    answer_seconds: float = 30 * DAY_SECONDS
    """Answers to mutation ids."""
    output_seconds: float = 7 * DAY_SECONDS
    """Output, after the end of its task."""
    audit_seconds: float | None = None
    """Rows of the audit. None: for ever."""
