"""The errors of orders: what a store or the execution loop refuses, and what a disk or an exchange did.

See `holdfast.errors` for the rest of the tree.
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

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class InvalidOrder(InvalidInput):
    """Not an order: its money, symbol or key is wrong."""

    code = "invalid-order"


class UnknownOrder(NotFound):
    """No such order."""

    code = "unknown-order"


class OverFill(Conflict):
    """More was filled than was ordered."""

    code = "over-fill"
    grpc_status = "FAILED_PRECONDITION"


class OrdersFrozen(Conflict):
    """Nothing may be placed in this freeze epoch."""

    code = "orders-frozen"
    grpc_status = "FAILED_PRECONDITION"


class StateLocked(Conflict):
    """Another process works on the state directory."""

    code = "state-locked"
    grpc_status = "FAILED_PRECONDITION"


class StateBehind(Conflict):
    """The state directory is older than the Redis it is used with."""

    code = "state-behind"
    grpc_status = "FAILED_PRECONDITION"


class RiskRefused(Conflict):
    """The order would break a limit of the risk monitor."""

    code = "risk-refused"
    grpc_status = "FAILED_PRECONDITION"


class NotReconciled(Conflict):
    """Orders from before the restart are not settled with the exchange yet."""

    code = "not-reconciled"
    grpc_status = "FAILED_PRECONDITION"


class StoreFailed(StoreUnavailable):
    """What is on the disk is not known: open the store again."""

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
    """The exchange did not reply: the request may have arrived, or not."""

    code = "exchange-timeout"
    retryable = True
    http_status = 504
    grpc_status = "DEADLINE_EXCEEDED"
    exit_code = 7


class ExchangeFailed(ExchangeTimeout):
    """The adapter of the exchange raised: what its call did is not known."""

    code = "exchange-failed"
    http_status = 502
    grpc_status = "UNAVAILABLE"
    exit_code = 10


def disk_error(error: OSError, what: str) -> StoreUnavailable:
    """An error of the disk as one of ours, for a step that changed nothing that matters."""
    if error.errno in FULL:
        return DiskFull(
            f"{what}: the disk is full, nothing was acknowledged; free some space ({error})"
        )
    return StoreUnavailable(f"{what}: {error}")


def unknown_state(error: OSError, what: str) -> StoreFailed:
    return StoreFailed(
        f"{what} failed ({error}), so what is on the disk is not known: nothing of it was acknowledged "
        "and nothing more is taken; close this store and open it again, which reads what is there"
    )
