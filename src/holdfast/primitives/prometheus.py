"""Our metrics in a registry of `prometheus_client`, beside those that an application has there already.

    prometheus_client.REGISTRY.register(collector(metrics))

Needs the extra: pip install 'holdfast[metrics]'. Without it `Metrics.render()` gives the same text.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.errors import MissingExtra
from holdfast.primitives.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.registry import Collector


def collector(metrics: Metrics) -> Collector:
    """What a registry asks at each scrape."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise MissingExtra("this needs prometheus_client: pip install 'holdfast[metrics]'")
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.registry import Collector

    class Ours(Collector):
        def collect(self) -> Iterable[Metric]:
            return text_string_to_metric_families(metrics.render())

    return Ours()
