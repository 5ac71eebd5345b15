"""Metrics of a component, rendered for Prometheus."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.metrics import OTHER, VALUES_MAX, Family, Kind, Metrics, NullMeter

FAMILIES = (
    Family("jobs_total", Kind.COUNTER, "Jobs by outcome.", ("outcome",)),
    Family("open_orders", Kind.GAUGE, "Orders that are open."),
    Family("wait_seconds", Kind.HISTOGRAM, "How long it took.", ("kind",)),
)


def test_rendered_metrics_are_parsed_by_prometheus() -> None:
    metrics = Metrics(FAMILIES)
    metrics.count("jobs_total", outcome='a "quoted\\" one\n')
    metrics.count("jobs_total", 2.5, outcome="ok")
    metrics.gauge("open_orders", 7)
    for seconds in (0.0004, 0.3, 99.0):
        metrics.observe("wait_seconds", seconds, kind="x")
    families = {family.name: family for family in text_string_to_metric_families(metrics.render())}
    assert {s.labels["outcome"]: s.value for s in families["jobs"].samples} == {
        'a "quoted\\" one\n': 1.0,
        "ok": 2.5,
    }
    assert families["open_orders"].samples[0].value == 7
    waits = {(s.name, s.labels.get("le")): s.value for s in families["wait_seconds"].samples}
    assert waits["wait_seconds_bucket", "0.0005"] == 1
    assert waits["wait_seconds_bucket", "0.5"] == 2
    assert waits["wait_seconds_bucket", "+Inf"] == 3
    assert waits["wait_seconds_count", None] == 3
    assert waits["wait_seconds_sum", None] == pytest.approx(99.3004)


def test_a_label_has_a_bounded_number_of_values() -> None:
    metrics = Metrics(FAMILIES)
    for n in range(VALUES_MAX + 5):
        metrics.count("jobs_total", outcome=f"o{n}")
    assert metrics.value("jobs_total", outcome=OTHER) == 5
    assert metrics.value("jobs_total", outcome="o0") == 1
    assert metrics.value("jobs_total", outcome="never") == 0


@pytest.mark.parametrize("labels", [{}, {"other": "x"}, {"outcome": "x", "more": "y"}])
def test_undeclared_labels_are_refused(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="jobs_total is a counter"):
        Metrics(FAMILIES).count("jobs_total", **labels)


def test_a_metric_is_used_as_its_declared_kind() -> None:
    with pytest.raises(ValueError, match="is a gauge"):
        Metrics(FAMILIES).count("open_orders")


def test_the_null_meter_accepts_any_metric() -> None:
    meter = NullMeter()
    meter.count("anything", 3, label="x")
    meter.gauge("anything", 3)
    meter.observe("anything", 3)
