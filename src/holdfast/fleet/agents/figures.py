"""What is measured of agents and their runs."""

from __future__ import annotations

from collections import Counter
from typing import Final

from holdfast.engine.meters import LATE
from holdfast.metrics import Family, Kind, Meter
from holdfast.sync.worker.figures import REJECTIONS

OFFERS: Final = "holdfast_offers_total"
RECONCILED: Final = "holdfast_reconciled_total"
OUTPUT: Final = "holdfast_output_bytes_total"
FOLDED: Final = "holdfast_output_folded_bytes_total"
SLOTS: Final = "holdfast_host_slots_held"
POLLS: Final = "holdfast_agent_polls_held"
FAMILIES: Final = (
    Family(
        OFFERS,
        Kind.COUNTER,
        "Executions that hosts were offered, again or not: blocked, skipped, expired, rejected, refused.",
        ("outcome",),
    ),
    Family(RECONCILED, Kind.COUNTER, "Runs of unknown outcome whose hosts came back."),
    Family(OUTPUT, Kind.COUNTER, "Bytes of output that agents sent."),
    Family(FOLDED, Kind.COUNTER, "Bytes of output that were stored already, for another host."),
    Family(SLOTS, Kind.GAUGE, "Hosts whose slot an execution has."),
    Family(POLLS, Kind.GAUGE, "Polls of agents that this gateway holds."),
)
_COUNTERS: Final = {"reconciled": RECONCILED, "output": OUTPUT, "folded": FOLDED}


def count(meter: Meter, figures: Counter[str]) -> None:
    """Adds what a batch of syncs did."""
    for name, n in figures.items():
        kind, _, outcome = name.partition(":")
        if not n:
            continue
        if kind == "offer":
            meter.count(OFFERS, n, outcome=outcome)
        elif name == "late":
            meter.count(LATE, n, kind="agent")
        elif name == "fenced":
            meter.count(REJECTIONS, n, what="agent")
        elif name in _COUNTERS:
            meter.count(_COUNTERS[name], n)
