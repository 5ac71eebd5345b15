"""A watcher of the live feed as a simulated process. It keeps its position on its disk."""

from __future__ import annotations

from typing import Final

from holdfast.client.watch import Watch
from holdfast.core.event import Position
from holdfast.errors import HoldfastError
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.hub.client_sockets import Dialer
from holdfast.sim.hub.links import http_of
from holdfast.sim.hub.sockets import Sockets
from holdfast.sim.hub_history import HubHistory, Shown, Watched
from holdfast.sim.node import Node

AGAIN_SECONDS: Final = 1.0


class Watcher:
    """The main of a watcher's node."""

    def __init__(self, sockets: Sockets, history: HubHistory, draw: Draw, watched: Watched) -> None:
        self._sockets = sockets
        self._history = history
        self._draw = draw
        self._watched = watched

    async def main(self, node: Node, _: Queue) -> None:
        draw = self._draw.stream(node.life)
        http = http_of(node, draw, self._sockets)
        watched = self._watched
        if watched.position is not None:
            node.cluster.trace.sometimes("watch-resumed")
        while True:
            watch = Watch(
                http,
                watched.channel,
                position=watched.position,
                open_connection=Dialer(self._sockets, node).feed,
            )
            try:
                async for item in watch:
                    # One step: the item is shown and its position is on the disk.
                    offset = Position.parse(item.position).offset if item.position else 0
                    if item.type != "snapshot" or item.position is not None:
                        kind = item.type if item.type in ("snapshot", "reset") else item.kind
                        watched.shown.append(Shown(kind, offset, self._history.time()))
                    if item.position is not None:
                        watched.position = item.position
                    node.cluster.trace.step(f"{node.name} shows {item.type} {offset}")
            except HoldfastError as error:
                node.cluster.trace.sometimes(f"watch {error.code}")
                await node.clock.sleep(AGAIN_SECONDS)
