"""How a simulated client reaches the gateways."""

from __future__ import annotations

from holdfast.client.http import Http
from holdfast.core.ids import Ids
from holdfast.sim.draw import Draw
from holdfast.sim.hub.client_sockets import Wireless
from holdfast.sim.hub.gateway import ADMIN_TOKEN
from holdfast.sim.hub.sockets import Sockets
from holdfast.sim.node import Node


def urls_of(node: Node, draw: Draw) -> tuple[str, ...]:
    """The addresses of all gateways, in turn from a drawn one on."""
    urls = [f"http://{name}:8787" for name in node.peers]
    first = draw.below(len(urls))
    return (*urls[first:], *urls[:first])


def http_of(node: Node, draw: Draw, sockets: Sockets, token: str | None = ADMIN_TOKEN) -> Http:
    """The client of one process."""
    ids = Ids(draw.stream("ids"))
    transport = Wireless(sockets, node)
    return Http(urls_of(node, draw), token, node.clock, ids, transport=transport)
