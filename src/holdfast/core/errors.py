"""Errors of requests over the wire. Servers raise them; clients raise them for the answer of a server."""

from __future__ import annotations

from typing import Any

from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidInput,
    LeaseLost,
    NotFound,
    StoreUnavailable,
    VersionConflict,
)

__all__ = [
    "AlreadyLocked",
    "AmbiguousId",
    "Forbidden",
    "GatewayUnavailable",
    "Malformed",
    "NodeFenced",
    "NotRunner",
    "PreconditionFailed",
    "RateLimited",
    "SelfApproval",
    "SlowConsumer",
    "TaskNotClaimable",
    "TooLarge",
    "Unauthenticated",
    "UnknownNode",
    "UnsupportedMedia",
]


class GatewayUnavailable(StoreUnavailable):
    """No gateway could be reached."""

    code = "gateway-unavailable"


class Malformed(InvalidInput):
    """The request cannot be read: it is not JSON, or not what the protocol prescribes."""

    code = "malformed"
    http_status = 400


class TooLarge(InvalidInput):
    """The body or frame of the request is larger than the server reads."""

    code = "too-large"
    http_status = 413


class UnsupportedMedia(InvalidInput):
    """The body has another media type than the call takes."""

    code = "unsupported-media"
    http_status = 415


class Unauthenticated(HoldfastError):
    """The request has no valid credential."""

    code = "unauthenticated"
    http_status = 401
    grpc_status = "UNAUTHENTICATED"
    exit_code = 4


class Forbidden(HoldfastError):
    """The principal may not do this."""

    code = "forbidden"
    http_status = 403
    grpc_status = "PERMISSION_DENIED"
    exit_code = 4


class SelfApproval(Forbidden):
    """A requester does not approve its own request."""

    code = "self-approval"


class PreconditionFailed(VersionConflict):
    """The version in If-Match is not the current one."""

    code = "precondition-failed"
    http_status = 412
    grpc_status = "FAILED_PRECONDITION"


class AmbiguousId(Conflict):
    """More than one object has the id, e.g. in different projects."""

    code = "ambiguous-id"
    grpc_status = "FAILED_PRECONDITION"


class RateLimited(HoldfastError):
    """The token has sent too many requests. `retry_after_seconds` says when to send the next one."""

    code = "rate-limited"
    retryable = True
    http_status = 429
    grpc_status = "RESOURCE_EXHAUSTED"
    exit_code = 10

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class SlowConsumer(HoldfastError):
    """The client does not read what it is sent. The connection has ended."""

    code = "slow-consumer"
    retryable = True
    http_status = 408
    grpc_status = "RESOURCE_EXHAUSTED"
    exit_code = 10


class UnknownNode(NotFound):
    """No node has registered under this id."""

    code = "unknown-node"


class NodeFenced(LeaseLost):
    """The node has a newer incarnation, or its state shuts it out."""

    code = "node-fenced"


class NotRunner(Conflict):
    """The sender does not hold the task."""

    code = "not-runner"
    grpc_status = "FAILED_PRECONDITION"


class AlreadyLocked(Conflict):
    """Another node holds the task. `details` say which one and for how long."""

    code = "already-locked"

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details or {}


class TaskNotClaimable(Conflict):
    """The task cannot be claimed now. `reason` says why."""

    code = "not-claimable"
    grpc_status = "FAILED_PRECONDITION"

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason
