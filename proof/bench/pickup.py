"""Samples of a pick-up measurement: how long each took, in which step, and how much CPU was stolen meanwhile.

A virtual machine loses CPU to its neighbours, and a tail that comes from that says nothing about a queue. The
kernel counts it in steps of 10 ms, for all cores together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proof.bench.probe import Hit

STAT = Path("/proc/stat")
STEAL = 8
"""The field of the first line of the file: time in which another machine ran."""
TICK_MS = 10
SLOWEST = 0.02


@dataclass(frozen=True)
class Sent:
    """What the producer saw of a task. Times are monotonic, in ns."""

    at: int
    """Before the enqueue."""
    acknowledged_at: int
    stolen_ms: int
    """CPU that was stolen from the enqueue until the next one."""


@dataclass(frozen=True)
class Sample:
    """A task, from before the enqueue until its handler ran, in ms."""

    total: float
    enqueue: float
    """The part until the enqueue was acknowledged, or until the handler ran if that came first."""
    stolen: int


def stolen_ms(stat: str) -> int:
    """The CPU that was stolen since the machine started."""
    return int(stat.split(None, STEAL + 1)[STEAL]) * TICK_MS


def samples(sent: Sequence[Sent], hits: Sequence[Hit]) -> list[Sample]:
    """Joins both sides. A hit carries its latency, so hits are found by the times of their enqueues."""
    in_order = sorted(hits, key=lambda hit: hit.at - hit.value)
    assert len(in_order) == len(sent), f"{len(in_order)} of {len(sent)} tasks ran"
    return [
        Sample(
            hit.value / 1e6,
            min(hit.value, one.acknowledged_at - one.at) / 1e6,
            one.stolen_ms,
        )
        for one, hit in zip(sent, in_order, strict=True)
    ]


def figures(found: Sequence[Sample]) -> dict[str, float | None]:
    """Percentiles; the 99th of the samples without stolen CPU; and of the slowest, the share of the enqueue
    and the part that lost CPU."""
    calm = [sample.total for sample in found if not sample.stolen]
    slowest = sorted(found, key=lambda sample: sample.total)[-max(1, int(len(found) * SLOWEST)) :]
    return {
        "p50": percentile([sample.total for sample in found], 0.5),
        "p95": percentile([sample.total for sample in found], 0.95),
        "p99": percentile([sample.total for sample in found], 0.99),
        "p99_calm": percentile(calm, 0.99) if calm else None,
        "slow_enqueue": 100 * sum(s.enqueue for s in slowest) / sum(s.total for s in slowest),
        "slow_stolen": 100 * sum(1 for s in slowest if s.stolen) / len(slowest),
        "stolen": float(sum(sample.stolen for sample in found)),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
