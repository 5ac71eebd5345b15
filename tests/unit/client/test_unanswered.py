"""What a user reads when no gateway answers."""

from __future__ import annotations

import ssl

import httpx2
import pytest
from websockets.exceptions import InvalidMessage

from holdfast.client.unanswered import unanswered

PLAIN = "http://127.0.0.1:8787"
DISCONNECTED = httpx2.RemoteProtocolError("Server disconnected without sending a response.")


def no_http(received: int) -> InvalidMessage:
    """What websockets raises for bytes that are no HTTP, or for none."""
    error = InvalidMessage("did not receive a valid HTTP response")
    error.__cause__ = EOFError("connection closed while reading HTTP status line")
    error.__cause__.__cause__ = EOFError(f"stream ends after {received} bytes, before end of line")
    return error


@pytest.mark.parametrize(
    ("name", "error", "hint"),
    [
        (PLAIN, ssl.SSLError("[SSL: WRONG_VERSION_NUMBER] wrong version number"), "write http://"),
        (PLAIN, httpx2.RemoteProtocolError("illegal request line"), "not the one of gRPC"),
        (PLAIN, DISCONNECTED, "write https://"),
        ("ws://127.0.0.1:8787/ws", no_http(0), "write https://"),
        ("ws://127.0.0.1:8788/ws", no_http(52), "not the one of gRPC"),
        (PLAIN, ConnectionRefusedError(111, "refused"), "is `holdfast server` running there?"),
        ("https://127.0.0.1:8787", DISCONNECTED, "client_ca"),
        ("https://127.0.0.1:8787", httpx2.ReadError(""), "client_ca"),
        ("wss://127.0.0.1:8787/ws", no_http(0), "client_ca"),
        ("https://127.0.0.1:8787", ConnectionRefusedError(111, "refused"), "running there?"),
    ],
)
def test_the_message_says_what_to_do(name: str, error: Exception, hint: str) -> None:
    assert hint in str(unanswered(name, error))
