"""Codes with which a gateway closes a WebSocket, and what each means to the client.

One table for the feed, for worker sync and for their clients. The reason of a close is the code of its error,
or a text. A code above 4400 is 4000 and the HTTP status of its errors. gRPC has the status of the error class
(`HoldfastError.grpc_status`) and sends the code of the error as metadata.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from holdfast.errors import HoldfastError

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
TRY_AGAIN_LATER: Final = 1013
NO_PONG: Final = 4000
MALFORMED: Final = 4400
UNAUTHENTICATED: Final = 4401
FORBIDDEN: Final = 4403
SLOW_CONSUMER: Final = 4408
NOT_SPEAKING: Final = 4409
"""The node may not speak in this connection: a newer one does, or the node is fenced or unknown."""
TOO_LARGE: Final = 4413
TOO_MANY: Final = 4429
INTERNAL: Final = 4500
UNAVAILABLE: Final = 4503
_STATUS_BASE: Final = 4000
_REASON_BYTES_MAX: Final = 123
"""Of a close, by RFC 6455."""

OF_ERROR: Final[dict[str, int]] = {
    "malformed": MALFORMED,
    "unauthenticated": UNAUTHENTICATED,
    "forbidden": FORBIDDEN,
    "slow-consumer": SLOW_CONSUMER,
    "node-fenced": NOT_SPEAKING,
    "replaced": NOT_SPEAKING,
    "unknown-node": NOT_SPEAKING,
    "too-large": TOO_LARGE,
    "rate-limited": TOO_MANY,
    "store-unavailable": UNAVAILABLE,
    "store-busy": UNAVAILABLE,
    "disk-full": UNAVAILABLE,
    "gateway-unavailable": UNAVAILABLE,
}
"""The code of a close, by the code of the error that ends the connection."""
_REFUSALS: Final = {
    MALFORMED: "malformed",
    UNAUTHENTICATED: "unauthenticated",
    FORBIDDEN: "forbidden",
    NOT_SPEAKING: "node-fenced",
    TOO_LARGE: "too-large",
    TOO_MANY: "rate-limited",
}
"""Codes that refuse the client, each with the error that it means without a reason. Others interrupt."""


class CloseAction(Enum):
    """What a client of the feed does after the connection ended."""

    RECONNECT = "reconnect"
    LOG_IN = "log in"
    """The token is bad, expired or revoked."""
    FORBIDDEN = "forbidden"
    """The origin or the project is not allowed."""
    GIVE_UP = "give up"
    """The server does not accept what this client sends, or another client has its place."""


_ACTIONS: Final[dict[int, CloseAction]] = {
    MALFORMED: CloseAction.GIVE_UP,
    TOO_LARGE: CloseAction.GIVE_UP,
    UNAUTHENTICATED: CloseAction.LOG_IN,
    FORBIDDEN: CloseAction.FORBIDDEN,
    NOT_SPEAKING: CloseAction.GIVE_UP,
}


def of_error(error_code: str) -> int:
    """The code of a close for an error."""
    return OF_ERROR.get(error_code, INTERNAL)


def reason_of(error: HoldfastError) -> str:
    """The reason of the close for an error: its text, if the code of the close says which error it is."""
    is_named = _REFUSALS.get(of_error(error.code)) == error.code
    text = str(error) if is_named else ""
    return text.encode()[:_REASON_BYTES_MAX].decode(errors="ignore") or error.code


def after_close(code: int | None) -> CloseAction:
    """Every code that is not listed is an interruption."""
    return CloseAction.RECONNECT if code is None else _ACTIONS.get(code, CloseAction.RECONNECT)


def refusal(code: int, reason: str) -> str | None:
    """The error of a close that refuses the client: the one that the reason names, if it has this code. None:
    the close is an interruption."""
    if code not in _REFUSALS:
        return None
    return reason if OF_ERROR.get(reason) == code else _REFUSALS[code]


def http_status(code: int) -> int:
    """The HTTP status of a close that refuses the client."""
    return code - _STATUS_BASE
