"""Why no gateway answered, with what to do about it. An internal module.

Never: shows a header or a token.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Final

from holdfast.core.errors import GatewayUnavailable
from holdfast.errors import BadConfig

_NO_HTTP: Final = "no HTTP is spoken there: give the server's --port, not the one of gRPC"
_NO_TLS: Final = "TLS may be needed: write https:// or holdfasts://"
_NO_CERTIFICATE: Final = (
    "it ended the connection after the TLS handshake: it may require a certificate of this client that its "
    "client_ca has signed and that has not expired, https://host:8787?ca=FILE&cert=FILE&key=FILE; or the "
    "port is the one of gRPC"
)
_ENDED: Final = ("disconnected without sending", "stream ends after 0 bytes")
"""The other side took the connection and ended it without a byte, as TLS does with plain HTTP."""
_CUT: Final = ("ReadError", "ConnectionResetError", "IncompleteReadError")
"""The same, where the end overtook the request."""
_HINTS: Final = (
    (("WRONG_VERSION_NUMBER",), "no TLS is spoken there: write http:// or holdfast://"),
    (_ENDED, _NO_TLS),
    (("illegal request line", "InvalidMessage"), _NO_HTTP),
)
"""What the errors of transports say, and what it means."""
_TLS_HINTS: Final = ((_ENDED + _CUT, _NO_CERTIFICATE), *_HINTS)
"""For an address with TLS. A refused certificate of a client is not named: the server hangs up."""


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
    whole = " ".join(map(repr, _causes(error)))
    hints = _TLS_HINTS if names.startswith(("https:", "wss:")) else _HINTS
    hint = next(
        (hint for signs, hint in hints if any(sign in whole for sign in signs)),
        "is `holdfast server` running there?",
    )
    return GatewayUnavailable(f"no gateway answers at {names}: {said}; {hint}")


def unanswered_in_time(names: str) -> GatewayUnavailable:
    """The error for gateways that accept a request and do not answer it."""
    return GatewayUnavailable(f"no gateway answers at {names} in time: {_FROZEN}")


def untrusted(name: str, error: BaseException) -> BadConfig | None:
    """The error for a certificate that is not trusted: another try there would find the same one. None: it is
    something else. `name`: the address of the gateway, as it is shown."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return BadConfig(
                f"the certificate of gateway {name} is not trusted: {cause.verify_message}; check the "
                "address, or name the file of its authority there: holdfasts://host:8787?ca=FILE"
            )
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, the nearest first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
