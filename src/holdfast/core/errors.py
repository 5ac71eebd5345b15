"""Errors of requests over the wire. Servers raise them; clients raise them for the answer of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

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
    "ApprovalNeeded",
    "ApprovalVoid",
    "BadSelector",
    "BadSignature",
    "CommandRefused",
    "EmptySelection",
    "Forbidden",
    "GatewayUnavailable",
    "JobRejected",
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
    "UnknownCommandType",
    "UnknownHost",
    "UnknownNode",
    "UnsupportedMedia",
]


HOSTS_NAMED_MAX: Final = 100
"""Hosts that one error names."""
HOSTS_SHOWN_MAX: Final = 10
"""Hosts that the message of an error names. It says how many more there are."""


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


class ApprovalNeeded(Conflict):
    """The job has not been approved."""

    code = "approval-needed"
    grpc_status = "FAILED_PRECONDITION"
    exit_code = 8


class ApprovalVoid(Conflict):
    """The job is not what was approved: its command, hosts, rollout or blocks have changed. Ask again."""

    code = "approval-void"


class JobRejected(Conflict):
    """The job was rejected."""

    code = "rejected"
    exit_code = 9


class BadSignature(Unauthenticated):
    """The webhook has no valid signature."""

    code = "bad-signature"


class CommandRefused(Forbidden):
    """The command type does not allow the command."""

    code = "command-refused"


class BadSelector(InvalidInput):
    """The selector cannot be read. `at` is the offset of the character, from 0; `expected` says what fits."""

    code = "bad-selector"

    def __init__(self, at: int, expected: str) -> None:
        super().__init__(f"the selector cannot be read at column {at + 1}: expected {expected}")
        self.at = at
        self.expected = expected


class UnknownHost(InvalidInput):
    """A name stands for no host. `names` are those, the first 100 of them."""

    code = "unknown-host"

    def __init__(self, names: Sequence[str], fields: Sequence[str] = ()) -> None:
        """`fields`: where each name stands, e.g. `hosts[3]`."""
        named = tuple(names[:HOSTS_NAMED_MAX])
        shown = ", ".join(f"'{name}'" for name in named[:HOSTS_SHOWN_MAX])
        rest = len(names) - HOSTS_SHOWN_MAX
        more = f" and {rest} more" if rest > 0 else ""
        super().__init__(f"no host {shown}{more}: list the hosts, or add the host first")
        self.names = named
        self.fields = [
            {"field": field, "message": f"no host '{name}'"}
            for field, name in zip(fields, named, strict=False)
        ]


class EmptySelection(InvalidInput):
    """The selection has no host."""

    code = "empty-selection"


class UnknownCommandType(InvalidInput):
    """The settings define no command type with that name."""

    code = "unknown-command-type"


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
