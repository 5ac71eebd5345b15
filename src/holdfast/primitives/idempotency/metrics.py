"""The metrics of a ledger, by operation."""

from __future__ import annotations

from typing import Final

from holdfast.core.ledger import Answered, Busy, Clash, EntryVerdict, Stale, Start
from holdfast.metrics import Family, Kind, Meter

HITS: Final = "holdfast_ledger_hits_total"
MISSES: Final = "holdfast_ledger_misses_total"
IN_FLIGHT: Final = "holdfast_ledger_in_flight_total"
CONFLICTS: Final = "holdfast_ledger_conflicts_total"
TAKEOVERS: Final = "holdfast_ledger_takeovers_total"
FENCED: Final = "holdfast_ledger_fenced_total"
EFFECT_SECONDS: Final = "holdfast_ledger_effect_seconds"
PRUNED: Final = "holdfast_ledger_pruned_total"

_BY_OPERATION: Final = ("operation",)
FAMILIES: Final = (
    Family(HITS, Kind.COUNTER, "Calls answered with a recorded outcome.", _BY_OPERATION),
    Family(MISSES, Kind.COUNTER, "Calls that ran their effect.", _BY_OPERATION),
    Family(
        IN_FLIGHT,
        Kind.COUNTER,
        "Begins refused because another caller runs the effect.",
        _BY_OPERATION,
    ),
    Family(CONFLICTS, Kind.COUNTER, "Calls that used a key of another request.", _BY_OPERATION),
    Family(TAKEOVERS, Kind.COUNTER, "Entries taken from a caller that died.", _BY_OPERATION),
    Family(FENCED, Kind.COUNTER, "Outcomes refused because of a newer lease.", _BY_OPERATION),
    Family(EFFECT_SECONDS, Kind.HISTOGRAM, "How long effects ran.", _BY_OPERATION),
    Family(PRUNED, Kind.COUNTER, "Entries deleted after their retention."),
)


def count_verdict(meter: Meter, verdict: EntryVerdict, operation: str) -> None:
    """Counts the result of a begin."""
    match verdict:
        case Answered():
            meter.count(HITS, operation=operation)
        case Busy():
            meter.count(IN_FLIGHT, operation=operation)
        case Clash():
            meter.count(CONFLICTS, operation=operation)
        case Stale():
            meter.count(FENCED, operation=operation)
        case Start(lease=lease):
            meter.count(MISSES, operation=operation)
            if lease.taken_over_from is not None:
                meter.count(TAKEOVERS, operation=operation)
