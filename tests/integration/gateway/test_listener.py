"""The socket of a server."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from holdfast.gateway.server import open_listener
from holdfast.gateway.settings import ServerSettings


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connections_send_small_answers_at_once(host: str) -> None:
    """Otherwise the second write of an answer waits for the client's delayed acknowledgement."""
    with (
        closing(open_listener(ServerSettings(host=host, port=0))) as listener,
        closing(socket.create_connection(listener.getsockname()[:2])),
    ):
        accepted, _ = listener.accept()
        with closing(accepted):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
