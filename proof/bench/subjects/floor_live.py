"""Floor: a bare broadcast of `websockets` to all connections. Nothing is stored, nothing can be resumed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from websockets.asyncio.server import ServerConnection, broadcast, serve

from proof.bench.live.event import EVENT
from proof.bench.live.subject import LiveSubject
from proof.lab.subject import main


class Broadcast(LiveSubject):
    """Each event is encoded once."""

    async def serve(self) -> int:
        """Without compression, as Holdfast."""
        self.open_ones: set[ServerConnection] = set()
        self.server = await serve(self._hold, "127.0.0.1", 0, compression=None, backlog=2_048)
        port: int = next(iter(self.server.sockets)).getsockname()[1]
        return port

    async def _hold(self, connection: ServerConnection) -> None:
        self.open_ones.add(connection)
        await connection.wait_closed()
        self.open_ones.discard(connection)

    async def unserve(self) -> None:
        """Closes all."""
        self.server.close()

    def setting(self, **_: Any) -> dict[str, Any]:
        """All text frames count."""
        return {"port": self.port, "path": "/", "hello": [], "prefix": "{", "ready": ""}

    async def publish(self, n: int) -> None:
        """One after another."""
        for _ in range(n):
            broadcast(self.open_ones, json.dumps(EVENT))
            await asyncio.sleep(0)


if __name__ == "__main__":
    main(Broadcast)
