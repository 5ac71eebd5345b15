"""Errors of a gateway, as exceptions of Holdfast.

Promises: an answer with a known code raises the class of that code, with the message of the server. An
unknown code raises the nearest class by its HTTP status and keeps its code. The whole problem (RFC 9457) is
in `problem`, e.g. the current state after a version conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast import errors
from holdfast.core import errors as wire_errors
from holdfast.errors import HoldfastError

_BY_STATUS: Final[dict[int, type[HoldfastError]]] = {
    400: wire_errors.Malformed,
    401: wire_errors.Unauthenticated,
    403: wire_errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    412: wire_errors.PreconditionFailed,
    413: wire_errors.TooLarge,
    415: wire_errors.UnsupportedMedia,
    422: errors.InvalidInput,
    429: wire_errors.RateLimited,
    501: errors.NotSupported,
    502: wire_errors.GatewayUnavailable,
    503: errors.StoreUnavailable,
    504: errors.WaitTimeout,
}
RETRY_STATUSES: Final = frozenset({429, 502, 503, 504})
"""Statuses that ask to try again when the answer has no problem details, e.g. from a proxy."""
_OWN_FIELDS: Final[dict[type[HoldfastError], dict[str, Any]]] = {
    errors.InProgress: {"owner": "", "since": 0.0, "lease_until": None},
    errors.FeedReset: {"reason": "", "oldest": "", "head": ""},
    wire_errors.TaskNotClaimable: {"reason": ""},
    wire_errors.RateLimited: {"retry_after_seconds": 1.0},
    wire_errors.BadSelector: {"at": 0, "expected": ""},
    wire_errors.UnknownHost: {"names": (), "fields": []},
}
"""Attributes that the constructors of classes set, with their defaults."""


def classes() -> dict[str, type[HoldfastError]]:
    """The error classes by code. The first class of a code, nearest to the root, counts."""
    by_code: dict[str, type[HoldfastError]] = {}
    waiting: list[type[HoldfastError]] = [HoldfastError]
    while waiting:
        error = waiting.pop(0)
        by_code.setdefault(error.code, error)
        waiting += error.__subclasses__()
    return by_code


def problem(
    status: int, body: object, *, retry_after_seconds: float | None = None
) -> HoldfastError:
    """The exception for an answer that is not a success. `body`: the decoded problem details."""
    fields: dict[str, Any] = body if isinstance(body, dict) else {}
    code = fields.get("code")
    kind = classes().get(code) if isinstance(code, str) else None
    text = fields.get("detail") or fields.get("title") or f"the gateway answered {status}"
    error = _made(kind or _class_of(status), str(text), fields)
    if kind is None and isinstance(code, str):
        # Instances keep a code that this version of the client does not know.
        error.__dict__["code"] = code
    if retry_after_seconds is not None:
        error.__dict__["retry_after_seconds"] = retry_after_seconds
    error.__dict__["problem"] = fields
    error.__dict__["status"] = status
    return error


def problem_of(error: HoldfastError) -> Mapping[str, Any]:
    """The problem details of an error that a gateway sent; empty for others."""
    fields: Mapping[str, Any] = error.__dict__.get("problem", {})
    return fields


def status_of(error: HoldfastError) -> int | None:
    """The HTTP status of an answer that raised the error; None for others."""
    status: int | None = error.__dict__.get("status")
    return status


def is_page(error: HoldfastError) -> bool:
    """Whether the answer has no problem details of a gateway, e.g. because it is the page of a proxy."""
    return status_of(error) is not None and "code" not in problem_of(error)


def asks_to_retry(error: HoldfastError) -> bool:
    """Whether the same request may succeed later."""
    fields = problem_of(error)
    is_retryable = fields.get("retryable")
    if isinstance(is_retryable, bool):
        return is_retryable
    return error.retryable if "code" in fields else error.__dict__.get("status") in RETRY_STATUSES


def _class_of(status: int) -> type[HoldfastError]:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return errors.InvalidInput if 400 <= status < 500 else HoldfastError


def _made(kind: type[HoldfastError], text: str, fields: dict[str, Any]) -> HoldfastError:
    """An instance without its constructor: those of some classes take other arguments than a message."""
    error = kind.__new__(kind)
    Exception.__init__(error, text)
    inner = fields.get("reset")
    given = fields | (inner if isinstance(inner, dict) else {})
    for owner, attributes in _OWN_FIELDS.items():
        if isinstance(error, owner):
            error.__dict__.update(
                {name: given.get(name, value) for name, value in attributes.items()}
            )
    if isinstance(error, wire_errors.AlreadyLocked):
        error.__dict__["details"] = fields
    return error
