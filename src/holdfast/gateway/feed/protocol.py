"""The WebSocket protocol of the server, with a direct way for the feed.

uvicorn passes each message of an ASGI application through a coroutine. For 1,000 subscribers of one event
that is 1,000 coroutines and 1,000 headers for the same bytes. The feed writes complete frames to the
transport instead. Use it as `uvicorn.Config(ws=FeedProtocol, ws_per_message_deflate=False)`.
Promises: ASGI applications see no difference. A frame that is too large closes with 4413, a missing pong with
4000. A closed connection ends within `close_timeout` even if the client does not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Close, CloseCode, Frame
from websockets.http11 import Request
from websockets.server import ServerProtocol

from holdfast.core.close_codes import NO_PONG, TOO_LARGE
from holdfast.core.subscription import FlowBounds

EXTENSION: Final = "holdfast.outlet"
"""The extension of the ASGI scope that carries the protocol."""
LINGER_SECONDS: Final = 0.5
"""How long a connection is read on after a frame that is too large."""


class _Frames(ServerProtocol):
    """Closes with the code of this protocol when a frame is too large."""

    def fail(self, code: int, reason: str = "") -> None:
        super().fail(TOO_LARGE if code == CloseCode.MESSAGE_TOO_BIG else code, reason)


class FeedProtocol(WebSocketsSansIOProtocol):
    """See the module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _Frames(
            extensions=[],
            max_size=self.config.ws_max_size,
            logger=logging.getLogger("uvicorn.error"),
        )
        self._is_draining = False
        self.on_full: Callable[[], None] | None = None
        self.on_drained: Callable[[], None] | None = None
        self.on_lost: Callable[[], None] | None = None
        """Called before the transport can no longer be written to."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()
        super().connection_lost(exc)

    def handle_close(self, event: Frame) -> None:
        self._lost()
        super().handle_close(event)

    def handle_parser_exception(self) -> None:
        """Sends the close frame and drops what the client still sends. A transport that is closed with unread
        bytes would drop the close frame."""
        self._lost()
        sent = self.conn.close_sent
        if sent is None:
            super().handle_parser_exception()
        elif not self._is_draining:
            self._is_draining = True
            self._end(sent)

    def _end(self, sent: Close) -> None:
        self.stop_keepalive()
        if not self.close_sent:
            self.close_sent = True
            self.queue.put_nowait(
                {"type": "websocket.disconnect", "code": sent.code, "reason": sent.reason}
            )
            self.transport.write(b"".join(self.conn.data_to_send()))
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        if self.close_timer is not None:
            self.close_timer.cancel()
        self.close_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def shutdown(self) -> None:
        self._lost()
        super().shutdown()

    def _lost(self) -> None:
        if self.on_lost is not None:
            self.on_lost()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["extensions"][EXTENSION] = {"protocol": self}

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            # A refusal with an answer is complete. uvicorn would log it as an error of the application.
            self.handshake_complete = True

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.on_full is not None:
            self.on_full()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_drained is not None:
            self.on_drained()

    def keepalive_timeout(self) -> None:
        if self.transport.get_write_buffer_size() > 0:
            # The ping may still be in the buffer. A client that reads nothing is closed as a slow one.
            self.pong_timer = self.loop.call_later(self.ping_timeout or 1.0, self.keepalive_timeout)
            return
        self.pong_timer = None
        self.pending_ping_payload = None
        self.close_now(NO_PONG, "no pong")

    def close_now(self, code: int, reason: str) -> None:
        """Sends a close frame after what is queued. The connection ends with the answer of the client, or
        after `close_timeout`."""
        if self.close_sent or self.transport.is_closing():
            return
        self.stop_keepalive()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)


class DirectOutlet:
    """Writes frames to the transport of a `FeedProtocol`."""

    __slots__ = ("_protocol", "_transport", "write")

    def __init__(self, protocol: FeedProtocol, bounds: FlowBounds) -> None:
        self._protocol = protocol
        self._transport: asyncio.WriteTransport = protocol.transport
        self._transport.set_write_buffer_limits(high=bounds.high_bytes, low=bounds.low_bytes)
        # Called once for each client and event.
        self.write = self._transport.write

    def attach(
        self,
        *,
        on_full: Callable[[], None],
        on_drained: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Sets what is called when the buffer is full or drained, and when the connection is lost."""
        self._protocol.on_full = on_full
        self._protocol.on_drained = on_drained
        self._protocol.on_lost = on_lost

    def buffered(self) -> int:
        return self._transport.get_write_buffer_size()

    def close(self, code: int, reason: str) -> None:
        self._protocol.close_now(code, reason)
