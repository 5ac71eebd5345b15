"""Counters, gauges and histograms of a component, rendered in the Prometheus text format.

Promises: every metric is declared; an undeclared name raises an error. A label has at most `VALUES_MAX`
values; further values count as "other". Any thread may use it. Never: a global registry, a background thread
or a dependency.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Final, Protocol

import msgspec

__all__ = [
    "Family",
    "Kind",
    "Meter",
    "Metrics",
    "NullMeter",
]

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
    """The declaration of a metric. Counters end in `_total`; units are in the name."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS_BUCKETS
    """The upper bounds of a histogram."""


class Meter(Protocol):
    """Where a component reports its measurements."""

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None: ...

    def gauge(self, name: str, value: float, /, **labels: str) -> None: ...

    def observe(self, name: str, seconds: float, /, **labels: str) -> None: ...


class NullMeter:
    """Discards all measurements: the default of every component."""

    __slots__ = ()

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        return

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        return

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        return


class _Series:
    """The values of one family under one set of label values."""

    __slots__ = ("bounds", "buckets", "count", "value")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.value = 0.0
        self.count = 0
        self.bounds = bounds
        self.buckets = [0] * len(bounds)

    def observe(self, seconds: float) -> None:
        self.value += seconds
        self.count += 1
        if seconds <= self.bounds[-1]:
            self.buckets[bisect_left(self.bounds, seconds)] += 1


class Metrics:
    """A meter that stores its measurements. Make it from the `FAMILIES` of the components that share it."""

    def __init__(self, *families: Iterable[Family]) -> None:
        self._families = {family.name: family for group in families for family in group}
        self._series: dict[str, dict[tuple[str, ...], _Series]] = {n: {} for n in self._families}
        self._label_values: dict[tuple[str, str], set[str]] = {}
        self._found: dict[tuple[object, ...], _Series] = {}
        """Series by name, kind and labels as a caller gives them. None of values that count as "other"."""
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
        """The value of a counter or gauge, or the number of observations of a histogram; 0 if never set."""
        family = self._families[name]
        with self._lock:
            series = self._series[name].get(tuple(labels[label] for label in family.labels))
        if series is None:
            return 0.0
        return float(series.count) if family.kind is Kind.HISTOGRAM else series.value

    def render(self) -> str:
        """The text for a Prometheus scrape."""
        with self._lock:
            return "".join(
                f"{line}\n" for name in sorted(self._series) for line in self._lines(name)
            )

    def _find(self, name: str, kind: Kind, labels: dict[str, str]) -> _Series:
        given = (name, kind, *labels, *labels.values())
        found = self._found.get(given)
        if found is not None:
            return found
        family = self._families[name]
        if family.kind is not kind or labels.keys() != set(family.labels):
            raise ValueError(f"{name} is a {family.kind} with labels {family.labels}, not {labels}")
        values = tuple(self._bounded(name, label, labels[label]) for label in family.labels)
        series = self._series[name].get(values)
        if series is None:
            series = self._series[name][values] = _Series(family.buckets)
        if values == tuple(labels[label] for label in family.labels):
            self._found[given] = series
        return series

    def _bounded(self, name: str, label: str, value: str) -> str:
        values = self._label_values.setdefault((name, label), set())
        if value in values:
            return value
        if len(values) >= VALUES_MAX:
            return OTHER
        values.add(value)
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
            for bound, n in zip(series.bounds, accumulate(series.buckets), strict=True):
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
