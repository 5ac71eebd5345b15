"""Errors of the order stores and the execution loop.

Promises: each class has its code, its status codes and whether a retry helps. See `holdfast.errors` for
the rest of the tree.
"""

from __future__ import annotations

import errno
from typing import Final

from holdfast.errors import (
    Conflict,
    DiskFull,
    HoldfastError,
    InvalidInput,
    NotFound,
    StoreUnavailable,
)

__all__ = [
    "CorruptLog",
    "CorruptSnapshot",
    "CorruptState",
    "ExchangeFailed",
    "ExchangeTimeout",
    "InvalidOrder",
    "NotReconciled",
    "OrdersFrozen",
    "OverFill",
    "RiskRefused",
    "StateBehind",
    "StateLocked",
    "StoreFailed",
    "UnknownOrder",
]

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class InvalidOrder(InvalidInput):
    """The order is invalid: an amount, its symbol or its key is wrong."""

    code = "invalid-order"


class UnknownOrder(NotFound):
    """There is no order with this id."""

    code = "unknown-order"


class OverFill(Conflict):
    """A fill report exceeds the ordered quantity."""

    code = "over-fill"
    grpc_status = "FAILED_PRECONDITION"


class OrdersFrozen(Conflict):
    """Orders are frozen, or the order was meant for an earlier freeze epoch."""

    code = "orders-frozen"
    grpc_status = "FAILED_PRECONDITION"


class StateLocked(Conflict):
    """Another process uses the state directory."""

    code = "state-locked"
    grpc_status = "FAILED_PRECONDITION"


class StateBehind(Conflict):
    """The state directory is older than the Redis view that it is opened with."""

    code = "state-behind"
    grpc_status = "FAILED_PRECONDITION"


class RiskRefused(Conflict):
    """The order would exceed a limit of the risk monitor."""

    code = "risk-refused"
    grpc_status = "FAILED_PRECONDITION"


class NotReconciled(Conflict):
    """Orders from before the restart are not reconciled with the exchange yet."""

    code = "not-reconciled"
    grpc_status = "FAILED_PRECONDITION"


class StoreFailed(StoreUnavailable):
    """A write failed and what is on the disk is not known. Open the store again."""

    code = "store-failed"
    retryable = False
    http_status = 500
    grpc_status = "INTERNAL"
    exit_code = 1


class CorruptState(HoldfastError):
    """Durable state is damaged and cannot be trusted."""

    code = "corrupt-state"
    grpc_status = "DATA_LOSS"


class CorruptLog(CorruptState):
    """The log is damaged."""

    code = "corrupt-log"


class CorruptSnapshot(CorruptState):
    """A snapshot is damaged."""

    code = "corrupt-snapshot"


class ExchangeTimeout(HoldfastError):
    """The exchange did not reply. The request may have arrived, or not."""

    code = "exchange-timeout"
    retryable = True
    http_status = 504
    grpc_status = "DEADLINE_EXCEEDED"
    exit_code = 7


class ExchangeFailed(ExchangeTimeout):
    """The exchange adapter raised. What its call did is not known."""

    code = "exchange-failed"
    http_status = 502
    grpc_status = "UNAVAILABLE"
    exit_code = 10


def disk_error(error: OSError, what: str) -> StoreUnavailable:
    """The error for a disk failure that left the durable state as it was."""
    if error.errno in FULL:
        return DiskFull(
            f"{what}: the disk is full and nothing was acknowledged; free some space ({error})"
        )
    return StoreUnavailable(f"{what}: {error}")


def unknown_state(error: OSError, what: str) -> StoreFailed:
    return StoreFailed(
        f"{what} failed ({error}), so what is on the disk is not known. Nothing of this write was "
        "acknowledged and the store accepts no more calls: close it and open it again"
    )
