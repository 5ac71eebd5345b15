"""The collector for prometheus_client: a scrape of its registry shows the metrics."""

from __future__ import annotations

import importlib.util

import prometheus_client
import pytest

from holdfast.errors import MissingExtra
from holdfast.metrics import Family, Kind, Metrics
from holdfast.primitives.idempotency import FAMILIES
from holdfast.primitives.prometheus import collector

GAUGE = Family("holdfast_test_depth", Kind.GAUGE, 'How "deep".')


def test_a_registry_shows_the_metrics() -> None:
    metrics = Metrics(FAMILIES, [GAUGE])
    registry = prometheus_client.CollectorRegistry()
    registry.register(collector(metrics))
    metrics.count("holdfast_ledger_hits_total", 3, operation='quo"ted\\\n')
    metrics.observe("holdfast_ledger_effect_seconds", 0.02, operation="pay")
    metrics.gauge("holdfast_test_depth", 2.5)

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert sample("holdfast_ledger_hits_total", operation='quo"ted\\\n') == 3.0
    assert sample("holdfast_ledger_effect_seconds_count", operation="pay") == 1.0
    assert sample("holdfast_ledger_effect_seconds_bucket", operation="pay", le="0.025") == 1.0
    assert sample("holdfast_ledger_effect_seconds_bucket", operation="pay", le="0.01") == 0.0
    assert sample("holdfast_test_depth") == 2.5
    metrics.count("holdfast_ledger_hits_total", 1, operation='quo"ted\\\n')
    assert sample("holdfast_ledger_hits_total", operation='quo"ted\\\n') == 4.0
    text = prometheus_client.generate_latest(registry).decode()
    assert "# TYPE holdfast_ledger_hits_total counter" in text
    assert "# TYPE holdfast_ledger_effect_seconds histogram" in text


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"holdfast\[metrics\]"):
        collector(Metrics())
