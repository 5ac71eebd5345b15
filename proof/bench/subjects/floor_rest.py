"""Floor: a Starlette route that decodes JSON and inserts one row with asyncpg. Nothing is checked."""

from __future__ import annotations

import asyncio
import socket

import asyncpg
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from proof.bench.live.rest import RestSubject
from proof.bench.live.subject import Clients
from proof.lab.subject import main

SCHEMA = (
    "create table job (id bigint generated always as identity primary key, type text, payload text)"
)
INSERT = "insert into job (type, payload) values ($1, $2) returning id"


class RestFloor(RestSubject):
    """uvicorn with httptools and a pool of connections, in this loop."""

    async def open(self) -> None:
        """Starts all."""
        self.pool = await asyncpg.create_pool(self.options.url, min_size=8, max_size=8)
        await self.pool.execute(SCHEMA)
        app = Starlette(routes=[Route("/tasks", self._insert, methods=["POST"])])
        listener = socket.create_server(("127.0.0.1", 0), backlog=2_048)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            app, http="httptools", log_level="error", lifespan="off", access_log=False
        )
        self.server = uvicorn.Server(config)
        self.serving = asyncio.create_task(self.server.serve([listener]))
        self.clients = Clients()
        await self.clients.start()

    async def close(self) -> None:
        """Stops all."""
        await self.clients.stop()
        self.server.should_exit = True
        await self.serving
        await self.pool.close()

    async def _insert(self, request: Request) -> JSONResponse:
        body = await request.json()
        job_id = await self.pool.fetchval(INSERT, body["type"], str(body["payload"]))
        return JSONResponse({"id": job_id}, 201)

    def request(self) -> tuple[str, str, object]:
        """The body of Holdfast's."""
        return "/tasks", "Accept: */*", {"type": "noop", "payload": {"n": 1}}


if __name__ == "__main__":
    main(RestFloor)
