"""Idempotency: a call runs its effect once, and repeats get the answer of the first.

    from holdfast.idempotency import Ledger

docs/howto/idempotency.md lists what is promised and what is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazily

if TYPE_CHECKING:
    from holdfast.primitives.idempotency import (
        FAMILIES,
        Answered,
        BlockingLedger,
        Done,
        Entry,
        EntryKey,
        EntryLease,
        Failed,
        Ledger,
        OnError,
        State,
    )

__all__ = [
    "FAMILIES",
    "Answered",
    "BlockingLedger",
    "Done",
    "Entry",
    "EntryKey",
    "EntryLease",
    "Failed",
    "Ledger",
    "OnError",
    "State",
]

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"holdfast.primitives.idempotency": __all__})
