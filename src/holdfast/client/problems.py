"""Errors of a gateway, as exceptions of Holdfast.

Promises: an answer with a known code raises the class of that code, with the message of the server. An
unknown code raises the nearest class by its HTTP status.
"""

from __future__ import annotations

from functools import cache
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
    422: errors.InvalidInput,
    429: wire_errors.RateLimited,
    503: errors.StoreUnavailable,
}


@cache
def classes() -> dict[str, type[HoldfastError]]:
    """The error classes by code. The first class of a code, nearest to the root, counts."""
    found: dict[str, type[HoldfastError]] = {}
    waiting: list[type[HoldfastError]] = [HoldfastError]
    while waiting:
        error = waiting.pop(0)
        found.setdefault(error.code, error)
        waiting += error.__subclasses__()
    return found


def problem(status: int, body: object) -> HoldfastError:
    """The exception for an answer that is not a success. `body`: the decoded problem details."""
    fields: dict[str, Any] = body if isinstance(body, dict) else {}
    code = fields.get("code")
    kind = classes().get(code) if isinstance(code, str) else None
    if kind is None:
        kind = _BY_STATUS.get(status, HoldfastError)
    text = fields.get("detail") or fields.get("title") or f"the gateway answered {status}"
    error = kind.__new__(kind)
    Exception.__init__(error, str(text))
    # Plain attributes: the constructors of some classes take more than a message.
    error.__dict__["problem"] = fields
    error.__dict__["status"] = status
    return error
