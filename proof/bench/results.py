"""Measurements: samples by scenario, subject and metric, and why some are missing."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Results:
    """Samples of all rounds; a subject that failed or was left out has a reason instead."""

    samples: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def add(self, scenario: str, subject: str, measured: dict[str, float | None]) -> None:
        """Adds the measurements of one round."""
        row = self.samples.setdefault(scenario, {}).setdefault(subject, {})
        for key, value in measured.items():
            if value is not None:
                row.setdefault(key, []).append(value)

    def fail(self, scenario: str, subject: str, reason: str) -> None:
        """Records why a measurement is missing."""
        self.failures.setdefault(scenario, {})[subject] = reason

    def median(self, scenario: str, subject: str, metric: str) -> float | None:
        """Median over the rounds, or None."""
        values = self.samples.get(scenario, {}).get(subject, {}).get(metric)
        return statistics.median(values) if values else None

    def spread(self, scenario: str, subject: str, metric: str) -> tuple[float, float] | None:
        """Least and greatest over the rounds, or None."""
        values = self.samples.get(scenario, {}).get(subject, {}).get(metric)
        return (min(values), max(values)) if values else None

    def as_dict(self) -> dict[str, Any]:
        """For a result file."""
        return {"samples": self.samples, "failures": self.failures, "skipped": self.skipped}
