"""A gateway as a simulated process: feed, worker sync and the APIs, on the store across the network."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from holdfast.core.ids import Ids
from holdfast.errors import StoreUnavailable
from holdfast.gateway.compose import compose, open_services
from holdfast.gateway.server import new_metrics
from holdfast.gateway.settings import ServerSettings
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.hub.asgi import Acceptor, App
from holdfast.sim.hub.sockets import Sockets
from holdfast.sim.node import Node

ADMIN_TOKEN: Final = "simulated-admin-token-of-the-gateways"
SETTINGS: Final = ServerSettings(
    grpc_port=-1, admin_token=ADMIN_TOKEN, rate_per_second=1e6, burst=10**6
)


class GatewayProcess:
    """The main of a gateway's node."""

    def __init__(self, sockets: Sockets, draw: Draw) -> None:
        self._sockets = sockets
        self._draw = draw

    async def main(self, node: Node, queue: Queue) -> None:
        """Serves until the process dies. It starts when the store can be reached."""
        ids = Ids(self._draw.stream(node.life))
        while True:
            async with AsyncExitStack() as running:
                try:
                    services = await open_services(queue, SETTINGS, new_metrics())
                    services.ids = ids
                    made = compose(services, SETTINGS)
                    for part in made.running:
                        await running.enter_async_context(part())
                except StoreUnavailable:
                    await node.clock.sleep(1.0)
                    continue
                Acceptor(node, App(made), self._sockets)
                task = asyncio.current_task()
                assert task is not None
                node.keep(task)  # nothing else refers to a task that waits for ever
                await asyncio.Event().wait()
