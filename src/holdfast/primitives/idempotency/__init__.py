"""Idempotency: a call runs its effect once, and repeats get the recorded answer.

    ledger = Ledger.connect("postgresql://...")
    answer = await ledger.run("account:7", "charge", key, request, effect)

See docs/howto/idempotency.md for what is promised and what is not.
"""

from __future__ import annotations

from holdfast.core.ledger import Answered, Done, Entry, EntryKey, EntryLease, Failed, State
from holdfast.core.once import OnError
from holdfast.primitives.idempotency.blocking import BlockingLedger
from holdfast.primitives.idempotency.ledger import Ledger
from holdfast.primitives.idempotency.metrics import FAMILIES

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
