"""Syncs of agents over WebSocket: `GET /agent/v1/ws`, subprotocol `holdfast.agent.v1`.

A text frame is the body of `POST /agent/v1/sync`; each is answered by a frame with the same `seq`. A sync
that is refused gets `{"seq": …, "error": {…}}` with problem details, and the connection stays, unless the
agent may not speak. A connection whose credential has ended is closed, with 4401. Promises: an agent may send
a sync while an earlier one is held; the earlier one is answered then.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

import msgspec
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.core import close_codes
from holdfast.core.errors import Malformed, NodeFenced, TooLarge, UnknownNode
from holdfast.core.fleet.agents.wire import SYNC_BYTES_MAX, AgentSync
from holdfast.errors import HoldfastError
from holdfast.gateway.connections import Door, OpenSession
from holdfast.gateway.feed.protocol import EXTENSION
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.invalid import invalid
from holdfast.gateway.operations.call import Call
from holdfast.gateway.operations.fleet.agents import speaking_for
from holdfast.gateway.rest import body as bodies
from holdfast.gateway.rest.problem import problem

SUBPROTOCOL: Final = "holdfast.agent.v1"
OPEN_MAX: Final = 4
"""Syncs of a connection that are not answered yet."""
log: Final = logging.getLogger("holdfast.gateway")


async def serve_websocket(gateway: Gateway, door: Door, websocket: WebSocket) -> None:
    """Serves one connection until it ends."""
    if SUBPROTOCOL not in websocket.scope.get("subprotocols", ()):
        text = f"this endpoint speaks the subprotocol {SUBPROTOCOL}"
        await websocket.send_denial_response(PlainTextResponse(text, status_code=400))
        return
    extension = websocket.scope.get("extensions", {}).get(EXTENSION)
    if extension is not None:
        extension["protocol"].conn.max_message_size = SYNC_BYTES_MAX
    await websocket.accept(subprotocol=SUBPROTOCOL)
    try:
        session = await door.connect(websocket)
        try:
            connection = _Connection(gateway, websocket, session)
            watching = gateway.services.agent_credentials.watching
            with watching(session.digest, connection.end) as credential:
                await connection.serve()
                credential.check()
        finally:
            session.close()
    except WebSocketDisconnect:
        return
    except HoldfastError as error:
        await _close(websocket, close_codes.of_error(error.code), close_codes.reason_of(error))
    except Exception:
        log.exception("a connection of an agent failed")
        await _close(websocket, close_codes.INTERNAL, "internal")


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):
        await websocket.close(code, reason)


class _Connection:
    """The connection of one agent."""

    def __init__(self, gateway: Gateway, websocket: WebSocket, session: OpenSession) -> None:
        self._gateway = gateway
        self._services = gateway.services
        self._websocket = websocket
        self._session = session
        self._host_id = self._speaking_for()
        self._open: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """Ends the connection: its credential has ended."""
        if not self._failed.done():
            self._failed.set_result(None)

    async def serve(self) -> None:
        """Reads frames until the connection ends, or the agent may not speak any more."""
        reading = asyncio.create_task(self._read())
        try:
            await asyncio.wait({reading, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
                return
            await reading
        finally:
            reading.cancel()
            for task in self._open:
                task.cancel()
            await asyncio.gather(reading, *self._open, return_exceptions=True)
            self._failed.cancel()

    async def _read(self) -> None:
        while True:
            frame = await self._websocket.receive()
            if frame["type"] == "websocket.disconnect":
                return
            text = frame.get("text")
            if text is None:
                raise Malformed("a sync is a text frame")
            data = text.encode("utf-8", "surrogatepass")
            if len(data) > SYNC_BYTES_MAX:
                raise TooLarge(f"a sync has at most {SYNC_BYTES_MAX} bytes")
            self._gateway.count(self._session.principal, self._session.token_id or "")
            while len(self._open) >= OPEN_MAX:
                await asyncio.wait(self._open, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._answer(data))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _answer(self, data: bytes) -> None:
        seq = 0
        try:
            sync = _decoded(data)
            seq = sync.seq
            longest = self._services.agents.agents.heartbeat_seconds
            answer = await self._services.agents.sync(self._host_id, sync, wait_max=longest)
            await self._websocket.send_text(msgspec.json.encode(answer).decode())
        except (Malformed, NodeFenced, UnknownNode) as error:
            if not self._failed.done():
                self._failed.set_exception(error)
        except HoldfastError as error:
            shown = {"seq": seq, "error": problem(error, self._services.request_id())}
            await self._websocket.send_text(msgspec.json.encode(shown).decode())
        except (WebSocketDisconnect, RuntimeError):
            log.debug("an agent has gone before its answer")

    def _speaking_for(self) -> str:
        call = Call(
            self._services,
            self._session.principal,
            request_id=self._services.request_id(),
            token_id=self._session.token_id,
        )
        return speaking_for(call)


def _decoded(data: bytes) -> AgentSync:
    bodies.check_depth(data)
    try:
        return msgspec.json.decode(data, type=AgentSync)
    except msgspec.ValidationError as error:
        raise invalid(error, AgentSync) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Malformed("the frame is not JSON in UTF-8") from None
