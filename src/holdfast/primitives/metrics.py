"""The public names of `holdfast.metrics`, for users of the primitives."""

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
