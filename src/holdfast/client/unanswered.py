"""Why no gateway answered, with what to do about it. An internal module.

Never: shows a header or a token.
"""

from __future__ import annotations

import ssl
from typing import Final

from holdfast.core.errors import GatewayUnavailable
from holdfast.errors import BadConfig

_HINTS: Final = (
    ("WRONG_VERSION_NUMBER", "no TLS is spoken there: write http:// or holdfast://"),
    (
        "illegal request line",
        "no HTTP is spoken there: give the server's --port, not the one of gRPC",
    ),
    ("InvalidMessage", "no HTTP is spoken there: give the server's --port, not the one of gRPC"),
    ("disconnected without sending", "TLS may be needed: write https:// or holdfasts://"),
)
"""What the errors of transports say, and what it means."""


_FROZEN: Final = "it accepts connections and does not answer: see its log, or start it again"


def no_answer(name: str, error: BaseException) -> str:
    """What one gateway did, in words. `name`: its address, as it is shown."""
    if type(error).__name__ == "ReadTimeout":
        return f"gateway {name} does not answer in time"
    return f"gateway {name} does not answer ({str(error) or type(error).__name__})"


def unanswered(names: str, error: BaseException | None) -> GatewayUnavailable:
    """The error for gateways that did not answer. `names`: their addresses, as they are shown."""
    said = repr(error)
    if type(error).__name__ == "ReadTimeout":
        return unanswered_in_time(names)
    hint = next(
        (hint for sign, hint in _HINTS if sign in said), "is `holdfast server` running there?"
    )
    return GatewayUnavailable(f"no gateway answers at {names}: {said}; {hint}")


def unanswered_in_time(names: str) -> GatewayUnavailable:
    """The error for gateways that accept a request and do not answer it."""
    return GatewayUnavailable(f"no gateway answers at {names} in time: {_FROZEN}")


def untrusted(error: BaseException) -> BadConfig | None:
    """The error for a certificate that is not trusted: another try would find the same one. None: it is
    something else."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return BadConfig(
                f"the certificate of the gateway is not trusted: {cause.verify_message}; check the "
                "address, or name the file of its authority there: holdfasts://host:8787?ca=FILE"
            )
        cause = cause.__cause__ or cause.__context__
    return None
