"""The gateways of a remote queue, and the token that they are given. Addresses: `holdfast.client.address`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from holdfast.client.address import PORT, Tls, check_token, read_addresses
from holdfast.core.address import shown_url
from holdfast.errors import BadConfig, MissingExtra

__all__ = ["PORT", "Gateways", "Tls", "gateways_of", "grpc_target"]


class Gateways(msgspec.Struct, frozen=True):
    """The gateways of one store."""

    urls: tuple[str, ...]
    """With `http` or `https`, without a slash at their end."""
    token: str
    prefers_grpc: bool = False
    grpc_port: int | None = None
    """None: the announced one."""
    tls: Tls = Tls()

    @property
    def has_tls(self) -> bool:
        return self.urls[0].startswith("https:")

    def at(self, turn: int) -> str:
        """The address of a gateway, for the log."""
        return shown_url(self.urls[turn % len(self.urls)])

    def websocket_url(self, turn: int) -> str:
        """The address of worker sync at a gateway."""
        return f"ws{self.urls[turn % len(self.urls)].removeprefix('http')}/api/v1/worker/ws"


def gateways_of(url: str | Sequence[str], token: str | None) -> Gateways:
    """BadConfig for an address or a token that cannot be used, MissingExtra without the packages."""
    read = read_addresses(url)
    if not token:
        names = ", ".join(shown_url(each) for each in read.urls)
        raise BadConfig(
            f"the gateway {names} needs a token: TaskQueue(url, token=...), --token or "
            "HOLDFAST_TOKEN; `holdfast server` prints one, `holdfast token create` makes others"
        )
    checked = check_token(token)
    for name in ("httpx2", "websockets"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"a gateway is reached with {name}: pip install 'holdfast[client]'")
    return Gateways(read.urls, checked, read.prefers_grpc, read.grpc_port, read.tls)


def grpc_target(websocket_url: str, port: int) -> str:
    """The address of gRPC at the gateway of a WebSocket."""
    host = urlsplit(websocket_url).hostname or ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
