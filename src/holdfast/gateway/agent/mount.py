"""Agents in a server: the loop of their polls, what wakes them, and the WebSocket.

Promises: a commit of any process that concerns a host wakes its agent here: the feed says which kinds of
changes there were, and one look at the store finds the hosts. An agent whose credential ends is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from fastapi import FastAPI
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from holdfast.fleet.hints import FLEET
from holdfast.gateway.agent.websocket import serve_websocket
from holdfast.gateway.connections import Door
from holdfast.gateway.feed.broadcaster import ACCESS_KINDS, Broadcaster
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.rest.apis import AGENT_WEBSOCKET

NEWS: Final = (
    *("task.unblocked", "task.aborted", "task.forced", "lock.revoked", "block."),
    *("node.revoked", "node.cloned", "host.removed"),
)
"""Kinds of events after which hosts may have something else to do: the look shows which."""
OPENINGS: Final = (
    *("task.unheld", "task.resumed", "task.rescheduled", "job.resumed", "job.approved"),
    *("queue.resumed", "host.changed", "node.state"),
)
"""Kinds after which executions that waited may start, though nothing of their hosts changed."""

CREDENTIALS: Final = (*ACCESS_KINDS, "host.changed", "host.removed")
"""Kinds after which credentials of agents may have ended."""


class AgentMount:
    """The part of a gateway that serves agents."""

    def __init__(self, gateway: Gateway, feed: Broadcaster) -> None:
        self._gateway = gateway
        self._agents = gateway.services.agents
        self._bus = gateway.services.bus
        self._feed = feed
        self._door = Door(gateway)

    def extend(self, app: FastAPI, gateway: Gateway) -> None:
        """Adds the paths. See `make_app`."""

        async def websocket(connection: WebSocket) -> None:
            await serve_websocket(gateway, self._door, connection)

        app.router.routes.append(WebSocketRoute(AGENT_WEBSOCKET, websocket))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Looks on behalf of the agents. All polls are answered before the server stops."""
        ends: list[Callable[[], None]] = [
            self._bus.subscribe(lambda _hint: self._agents.wake(), FLEET)
        ]
        ends += [self._feed.listen(kind, self._agents.wake) for kind in NEWS]
        force = partial(self._agents.wake, force=True)
        ends += [self._feed.listen(kind, force) for kind in OPENINGS]
        credentials = self._gateway.services.agent_credentials
        ends += [self._feed.listen(kind, credentials.soon) for kind in CREDENTIALS]
        looking = asyncio.create_task(self._agents.run(), name="holdfast-agents")
        checking = asyncio.create_task(credentials.run(), name="holdfast-agent-credentials")
        stopping = asyncio.create_task(self._stop(), name="holdfast-agents-stop")
        try:
            yield
        finally:
            for end in ends:
                end()
            stopping.cancel()
            looking.cancel()
            checking.cancel()
            await self._agents.close()

    async def _stop(self) -> None:
        """A gateway that stops answers what it holds at once."""
        await self._gateway.services.stopping.wait()
        await self._agents.close()
