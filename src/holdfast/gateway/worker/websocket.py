"""Worker sync over WebSocket: `GET /api/v1/worker/ws`, subprotocol `holdfast.worker.v1`.

Promises: one message a text frame. What is not a message closes with 4400, a frame that is too large with
4413; each other end has its code (`core/close_codes.py`), after an `error` message with the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.core import close_codes
from holdfast.core.errors import Malformed, TooLarge
from holdfast.core.worker.wire import PROTOCOL, GatewayMessage, WorkerMessage
from holdfast.errors import HoldfastError
from holdfast.gateway.shown import error_frame
from holdfast.gateway.worker import json_codec
from holdfast.gateway.worker.door import Admitted
from holdfast.gateway.worker.service import WorkerService
from holdfast.gateway.worker.session import FLUSH_SECONDS, Received, WorkerSession

FRAME_BYTES_MAX: Final = 4_194_304
"""Above the largest result with its escapes."""
log = logging.getLogger("holdfast.gateway")


async def serve_websocket(
    service: WorkerService, admit: Callable[[WebSocket], Awaitable[Admitted]], websocket: WebSocket
) -> None:
    """Serves one connection until it ends."""
    if PROTOCOL not in websocket.scope.get("subprotocols", ()):
        text = f"this endpoint speaks the subprotocol {PROTOCOL}"
        await websocket.send_denial_response(PlainTextResponse(text, status_code=400))
        return
    await websocket.accept(subprotocol=PROTOCOL)
    try:
        admitted = await admit(websocket)
        try:
            session = WorkerSession(
                service, admitted.speaker, recheck=admitted.recheck, on_joined=admitted.joined
            )

            async def send(message: GatewayMessage) -> None:
                await websocket.send_text(json_codec.encode(message).decode())

            await session.run(_messages(websocket), send)
        finally:
            admitted.close()
    except WebSocketDisconnect:
        return
    except HoldfastError as error:
        await _close(websocket, close_codes.of_error(error.code), error)
    except Exception:
        log.exception("a worker's connection failed")
        await _close(
            websocket, close_codes.INTERNAL, HoldfastError("the gateway failed: connect again")
        )
    else:
        await _close(websocket, close_codes.NORMAL, None)


async def _messages(websocket: WebSocket) -> AsyncIterator[Received]:
    while True:
        frame = await websocket.receive()
        if frame["type"] == "websocket.disconnect":
            return
        text = frame.get("text")
        if text is None:
            raise Malformed("a message is a text frame")
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > FRAME_BYTES_MAX:
            raise TooLarge(f"a frame has at most {FRAME_BYTES_MAX} bytes, not {len(data)}")
        yield decoded(data), len(data)


def decoded(data: bytes) -> WorkerMessage | HoldfastError:
    """The message, or the error that answers it. Malformed ends the connection."""
    try:
        return json_codec.decode(data)
    except Malformed:
        raise
    except HoldfastError as error:
        return error


async def _close(websocket: WebSocket, code: int, error: HoldfastError | None) -> None:
    """Says why and closes. A peer that reads nothing does not hold this up."""
    try:
        async with asyncio.timeout(FLUSH_SECONDS):
            await _say_and_close(websocket, code, error)
    except TimeoutError:
        log.debug("a worker does not read: its connection is dropped")
    except (WebSocketDisconnect, RuntimeError):
        log.debug("a worker has gone before its answer")


async def _say_and_close(websocket: WebSocket, code: int, error: HoldfastError | None) -> None:
    if error is not None:
        await websocket.send_text(json_codec.encode(error_frame(error)).decode())
    await websocket.close(code, error.code if error else "")
