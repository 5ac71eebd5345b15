"""python-socketio on uvicorn: an event to all clients of a namespace, by WebSocket only."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import socketio
import uvicorn

from proof.bench.live.event import EVENT
from proof.bench.live.subject import LiveSubject
from proof.lab.subject import main


class SocketIo(LiveSubject):
    """Its asyncio server, in the process of this loop."""

    async def serve(self) -> int:
        """Without compression."""
        self.sio = socketio.AsyncServer(async_mode="asgi", transports=["websocket"])
        listener = socket.create_server(("127.0.0.1", 0), backlog=2_048)
        config = uvicorn.Config(
            socketio.ASGIApp(self.sio),
            log_level="error",
            lifespan="off",
            ws_per_message_deflate=False,
        )
        self.server = uvicorn.Server(config)
        self.serving = asyncio.create_task(self.server.serve([listener]))
        port: int = listener.getsockname()[1]
        return port

    async def unserve(self) -> None:
        """Stops without waiting for clients."""
        self.server.force_exit = self.server.should_exit = True
        await self.serving

    def setting(self, **_: Any) -> dict[str, Any]:
        """Engine.IO version 4: `40` joins the namespace, `42` is an event."""
        path = "/socket.io/?EIO=4&transport=websocket"
        return {"port": self.port, "path": path, "hello": ["40"], "prefix": "42", "ready": "40"}

    async def publish(self, n: int) -> None:
        """One after another."""
        for _ in range(n):
            await self.sio.emit("event", EVENT)


if __name__ == "__main__":
    main(SocketIo)
