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
from holdfast.client.unanswered import unanswered, untrusted
from holdfast.core.address import shown_url
from holdfast.core.errors import GatewayUnavailable
from holdfast.remote import channel
from holdfast.remote.channel import CONNECT_SECONDS, Channel, Connect
from holdfast.remote.gateways import Gateways, grpc_target

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
    return _GrpcFirst(gateways, context, websocket)


class _GrpcFirst:
    """Opens a connection over gRPC, or over WebSocket where that is not to be had."""

    def __init__(self, gateways: Gateways, context: Any, websocket: Connect) -> None:
        self._gateways = gateways
        self._context = context
        self._websocket = websocket

    async def __call__(self, url: str, token: str, ping_seconds: float) -> Channel:
        from holdfast.remote import grpc_channel

        port = await _announced(url, token, self._context)
        if port is not None:
            target = grpc_target(url, self._gateways.grpc_port or port)
            tls = self._gateways.tls if self._gateways.has_tls else None
            try:
                return await grpc_channel.connect(target, token, ping_seconds, tls)
            except GatewayUnavailable as error:
                log.warning("%s; trying WebSocket", error)
        return await self._websocket(url, token, ping_seconds)


async def _announced(url: str, token: str, context: Any) -> int | None:
    """The port of gRPC that the gateway announces. None: it has none."""
    base = "http" + url.removeprefix("ws").removesuffix(_WORKER_WS)
    verify = True if context is None else context
    try:
        async with httpx2.AsyncClient(
            verify=verify, timeout=CONNECT_SECONDS, trust_env=False
        ) as client:
            headers = {"Authorization": f"Bearer {token}"}
            answer = await client.get(base + ANNOUNCED_AT, headers=headers)
    except httpx2.TransportError as error:
        name = shown_url(base)
        raise untrusted(name, error) or unanswered(name, error) from None
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not answer.is_success:
        raise problem(answer.status_code, body)
    transports = body.get("worker_transports") if isinstance(body, dict) else None
    port = transports.get("grpc") if isinstance(transports, dict) else None
    return port if isinstance(port, int) and port > 0 else None
