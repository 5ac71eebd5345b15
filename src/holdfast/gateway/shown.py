"""What a caller of a gateway reads of an error.

Promises: no secret, and nothing of where the store is: an error of the store is shown by its kind, and its
text goes to the log.
"""

from __future__ import annotations

import logging

from holdfast.core.errors import GatewayUnavailable
from holdfast.core.redaction import DEFAULT
from holdfast.core.worker.wire import ErrorFrame
from holdfast.errors import HoldfastError, StoreUnavailable

log = logging.getLogger("holdfast.gateway")


def shown_detail(error: HoldfastError) -> str:
    """The text of the error for callers. Drivers put addresses and paths into the errors of a store."""
    if isinstance(error, StoreUnavailable) and not isinstance(error, GatewayUnavailable):
        log.warning("%s: %s", error.code, DEFAULT.text(str(error)))
        kind = (type(error).__doc__ or "").partition("\n")[0].rstrip(".")
        return f"{kind}: try again"
    return DEFAULT.text(str(error))


def error_frame(error: HoldfastError, claim_id: str = "") -> ErrorFrame:
    """The error as a worker gets it, on every transport. `claim_id`: the ask that it refuses."""
    return ErrorFrame(
        code=error.code,
        detail=shown_detail(error),
        retryable=error.retryable,
        claim_id=claim_id,
    )
