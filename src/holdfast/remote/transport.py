"""Which transport a worker uses: gRPC where it is preferred, installed and announced, else WebSocket.

Promises: a gateway whose gRPC port is not reached is still served over WebSocket. The same messages travel on
both. Never: keeps an answer of a gateway longer than one connection.
"""

from __future__ import annotations

import importlib.util
import logging
from functools import partial
from typing import Any, Final

import httpx2

from holdfast.client.problems import problem
from holdfast.core.address import shown_url
from holdfast.core.errors import GatewayUnavailable
from holdfast.remote import channel
from holdfast.remote.channel import CONNECT_SECONDS, Channel
from holdfast.remote.gateways import Gateways, grpc_target
from holdfast.remote.link import Connect

ANNOUNCED_AT: Final = "/api/v1/whoami"
_WORKER_WS: Final = "/api/v1/worker/ws"
log = logging.getLogger("holdfast.worker")


def opener(gateways: Gateways) -> Connect:
    """What opens the connections of a link to these gateways."""
    context = gateways.tls.context()
    websocket: Connect = partial(channel.connect, context=context)
    if not gateways.prefers_grpc:
        return websocket
    if importlib.util.find_spec("grpc") is None:
        log.warning("grpcio is not installed: this worker speaks WebSocket; pip install grpcio")
        return websocket
    return partial(_grpc_first, gateways, context, websocket)


async def _grpc_first(
    gateways: Gateways, context: Any, websocket: Connect, url: str, token: str, ping: float
) -> Channel:
    from holdfast.remote import grpc_channel

    port = await _announced(url, token, context)
    if port is not None:
        target = grpc_target(url, gateways.grpc_port or port)
        tls = gateways.tls if gateways.has_tls else None
        try:
            return await grpc_channel.connect(target, token, ping, tls)
        except GatewayUnavailable as error:
            log.warning("%s; trying WebSocket", error)
    return await websocket(url, token, ping)


async def _announced(url: str, token: str, context: Any) -> int | None:
    """The port of gRPC that the gateway announces. None: it has none."""
    base = "http" + url.removeprefix("ws").removesuffix(_WORKER_WS)
    verify = True if context is None else context
    try:
        async with httpx2.AsyncClient(verify=verify, timeout=CONNECT_SECONDS) as client:
            headers = {"Authorization": f"Bearer {token}"}
            answer = await client.get(base + ANNOUNCED_AT, headers=headers)
    except httpx2.TransportError as error:
        raise GatewayUnavailable(
            f"no gateway answers at {shown_url(base)}: {error!r}; is `holdfast server` running there?"
        ) from None
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not answer.is_success:
        raise problem(answer.status_code, body)
    port = body.get("grpc_port") if isinstance(body, dict) else None
    return port if isinstance(port, int) and port > 0 else None
