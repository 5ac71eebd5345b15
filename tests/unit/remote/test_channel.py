"""Ends of a WebSocket, as errors."""

from __future__ import annotations

from typing import NoReturn

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from holdfast.core.errors import GatewayUnavailable
from holdfast.errors import HoldfastError
from holdfast.remote.channel import WebSocketChannel


class Closed:
    """A connection that the gateway has closed."""

    def __init__(self, code: int, reason: str) -> None:
        self._close = Close(code, reason)

    async def recv(self, *, decode: bool) -> NoReturn:
        raise ConnectionClosedError(self._close, None)


@pytest.mark.parametrize("reason", ["replaced", "unknown-node", "node-fenced"])
async def test_each_close_with_4409_raises_the_error_of_its_reason(reason: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        await WebSocketChannel(Closed(4409, reason), "ws://a").receive()
    assert caught.value.code == reason


async def test_a_close_that_refuses_nothing_is_an_interruption() -> None:
    with pytest.raises(GatewayUnavailable):
        await WebSocketChannel(Closed(4503, "store-busy"), "ws://a").receive()
