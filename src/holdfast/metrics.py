"""Counters, gauges and histograms that a part keeps about itself, in the form that Prometheus reads.

Promises: what may be measured is declared (a name that is not is an error in the code, found by its first
test); a label never has more than `VALUES_MAX` values, what comes later is counted under "other"; safe to
use from any thread. Never: a global registry, a background thread, a dependency.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

VALUES_MAX: Final = 100
OTHER: Final = "other"
SECONDS_BUCKETS: Final = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(msgspec.Struct, frozen=True):
    """One thing that is measured. Counters end in `_total`; units are in the name."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


class Meter(Protocol):
    """Where a part reports what happened."""

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None: ...

    def gauge(self, name: str, value: float, /, **labels: str) -> None: ...

    def observe(self, name: str, seconds: float, /, **labels: str) -> None: ...


class NullMeter:
    """Measures nothing: the default of every part."""

    __slots__ = ()

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        return

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        return

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        return


class _Series:
    """The values of one family under one set of label values."""

    __slots__ = ("buckets", "count", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.count = 0
        self.buckets = [0] * len(SECONDS_BUCKETS)

    def observe(self, seconds: float) -> None:
        self.value += seconds
        self.count += 1
        for place, bound in enumerate(SECONDS_BUCKETS):
            if seconds <= bound:
                self.buckets[place] += 1


class Metrics:
    """A meter that keeps what it is told. Make one from the `FAMILIES` of the parts that share it."""

    def __init__(self, *families: Iterable[Family]) -> None:
        self._families = {family.name: family for each in families for family in each}
        self._series: dict[str, dict[tuple[str, ...], _Series]] = {n: {} for n in self._families}
        self._seen: dict[tuple[str, str], set[str]] = {}
        self._lock = threading.Lock()

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        with self._lock:
            self._find(name, Kind.COUNTER, labels).value += amount

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        with self._lock:
            self._find(name, Kind.GAUGE, labels).value = value

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        with self._lock:
            self._find(name, Kind.HISTOGRAM, labels).observe(seconds)

    def value(self, name: str, /, **labels: str) -> float:
        """What a counter or gauge stands at, or how often something was observed; 0 when never."""
        family = self._families[name]
        with self._lock:
            series = self._series[name].get(tuple(labels[label] for label in family.labels))
        if series is None:
            return 0.0
        return float(series.count) if family.kind is Kind.HISTOGRAM else series.value

    def render(self) -> str:
        """The text that Prometheus scrapes."""
        with self._lock:
            return "".join(
                f"{line}\n" for name in sorted(self._series) for line in self._lines(name)
            )

    def _find(self, name: str, kind: Kind, labels: dict[str, str]) -> _Series:
        family = self._families[name]
        if family.kind is not kind or labels.keys() != set(family.labels):
            raise ValueError(f"{name} is a {family.kind} with labels {family.labels}, not {labels}")
        values = tuple(self._bounded(name, label, labels[label]) for label in family.labels)
        return self._series[name].setdefault(values, _Series())

    def _bounded(self, name: str, label: str, value: str) -> str:
        seen = self._seen.setdefault((name, label), set())
        if value in seen:
            return value
        if len(seen) >= VALUES_MAX:
            return OTHER
        seen.add(value)
        return value

    def _lines(self, name: str) -> Iterator[str]:
        family = self._families[name]
        yield f"# HELP {name} {family.help}"
        yield f"# TYPE {name} {family.kind.value}"
        for values, series in sorted(self._series[name].items()):
            labels = list(zip(family.labels, values, strict=True))
            if family.kind is not Kind.HISTOGRAM:
                yield f"{name}{_braced(labels)} {_number(series.value)}"
                continue
            for bound, n in zip(SECONDS_BUCKETS, series.buckets, strict=True):
                yield f"{name}_bucket{_braced([*labels, ('le', _number(bound))])} {n}"
            yield f"{name}_bucket{_braced([*labels, ('le', '+Inf')])} {series.count}"
            yield f"{name}_sum{_braced(labels)} {_number(series.value)}"
            yield f"{name}_count{_braced(labels)} {series.count}"


def _braced(labels: Sequence[tuple[str, str]]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    whole = float(value).is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else repr(float(value))
