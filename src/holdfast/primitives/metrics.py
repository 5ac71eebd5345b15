"""The meters of `holdfast.metrics`, under the name by which the primitives have always offered them."""

from holdfast.metrics import (
    OTHER,
    SECONDS_BUCKETS,
    VALUES_MAX,
    Family,
    Kind,
    Meter,
    Metrics,
    NullMeter,
)

__all__ = [
    "OTHER",
    "SECONDS_BUCKETS",
    "VALUES_MAX",
    "Family",
    "Kind",
    "Meter",
    "Metrics",
    "NullMeter",
]
