"""Holdfast's metrics as a collector for a registry of `prometheus_client`.

    prometheus_client.REGISTRY.register(collector(metrics))

Needs the extra: pip install 'holdfast[metrics]'. `Metrics.render()` returns the same text without it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.errors import MissingExtra
from holdfast.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.registry import Collector

__all__ = [
    "collector",
]


def collector(metrics: Metrics) -> Collector:
    """The collector that the registry calls at each scrape."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise MissingExtra("collector() needs prometheus_client: pip install 'holdfast[metrics]'")
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.registry import Collector

    class MetricsCollector(Collector):
        def collect(self) -> Iterable[Metric]:
            return text_string_to_metric_families(metrics.render())

    return MetricsCollector()
