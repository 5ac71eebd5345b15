"""Figures of worker sync: counters of a process, and the tally of a project in the store.

Promises: what is not applied is counted: repeats, gaps, messages and changes of runners that were fenced.
The tally commits with the messages of its transaction; the metrics follow the commit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.core.worker.protocol import Reception
from holdfast.core.worker.wire import SyncAck
from holdfast.metrics import Family, Kind, Meter

MESSAGES: Final = "holdfast_sync_messages_total"
REJECTIONS: Final = "holdfast_fencing_rejections_total"
FAMILIES: Final = (
    Family(MESSAGES, Kind.COUNTER, "Messages of remote workers.", ("outcome",)),
    Family(REJECTIONS, Kind.COUNTER, "Writes of runners that had lost their place.", ("what",)),
)
FENCED_CODES: Final = frozenset({"lease-lost", "not-runner"})
"""Codes of refused changes whose runner does not hold the task."""
_OUTCOMES: Final = {
    Reception.APPLY: "applied",
    Reception.DUPLICATE: "duplicate",
    Reception.GAP: "gap",
    Reception.FENCED: "fenced",
    Reception.UNKNOWN: "fenced",
}
_TALLY: Final = {
    Reception.DUPLICATE: "duplicates",
    Reception.GAP: "gaps",
    Reception.FENCED: "fenced",
    Reception.UNKNOWN: "fenced",
}
_WHAT: Final = {"task": "task", "checkpoint": "step", "output": "step", "metrics": "step"}
"""The label of a rejection by the kind of its change."""


def tallies(
    projects: Sequence[str], outcomes: Sequence[Reception], acks: Sequence[SyncAck]
) -> Iterator[tuple[str, Counter[str]]]:
    """What the messages of a transaction add to the tally of each project."""
    by_project: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for project, outcome, ack in zip(projects, outcomes, acks, strict=True):
        if outcome in _TALLY:
            by_project[project][_TALLY[outcome]] += 1
        if fenced := sum(refused.code in FENCED_CODES for refused in ack.refused):
            by_project[project]["fenced"] += fenced
    yield from sorted(by_project.items())


def count(meter: Meter, outcomes: Sequence[Reception], acks: Sequence[SyncAck]) -> None:
    """Counts the messages of a transaction."""
    messages: Counter[str] = Counter()
    rejections: Counter[str] = Counter()
    for outcome, ack in zip(outcomes, acks, strict=True):
        name = _OUTCOMES[outcome]
        messages["refused" if ack.refused and name == "applied" else name] += 1
        if name == "fenced":
            rejections["worker"] += 1
        for refused in ack.refused:
            if refused.code in FENCED_CODES:
                rejections[_WHAT.get(refused.what, "task")] += 1
    for name, n in messages.items():
        meter.count(MESSAGES, n, outcome=name)
    for name, n in rejections.items():
        meter.count(REJECTIONS, n, what=name)
