"""The metrics of requests. The label `operation` is one of the table of operations."""

from __future__ import annotations

from typing import Final

from holdfast.metrics import Family, Kind

REQUESTS: Final = "holdfast_requests_total"
SECONDS: Final = "holdfast_request_seconds"
AUTH_FAILURES: Final = "holdfast_auth_failures_total"
RATE_LIMITED: Final = "holdfast_rate_limited_total"
FAMILIES: Final = (
    Family(REQUESTS, Kind.COUNTER, "Requests by answer.", ("operation", "transport", "code")),
    Family(SECONDS, Kind.HISTOGRAM, "Time from request to answer.", ("operation", "transport")),
    Family(AUTH_FAILURES, Kind.COUNTER, "Requests without a valid credential.", ("transport",)),
    Family(RATE_LIMITED, Kind.COUNTER, "Requests over the rate of a token.", ("transport",)),
)
