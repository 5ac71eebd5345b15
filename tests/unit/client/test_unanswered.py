"""What a user reads when no gateway answers."""

from __future__ import annotations

import ssl

import httpx2
import pytest

from holdfast.client.unanswered import unanswered


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ssl.SSLError("[SSL: WRONG_VERSION_NUMBER] wrong version number"), "write http://"),
        (httpx2.RemoteProtocolError("illegal request line"), "not the one of gRPC"),
        (httpx2.RemoteProtocolError("Server disconnected without sending a response."), "https://"),
        (ConnectionRefusedError(111, "refused"), "is `holdfast server` running there?"),
    ],
)
def test_the_message_says_what_to_do(error: Exception, hint: str) -> None:
    assert hint in str(unanswered("http://127.0.0.1:8787", error))
