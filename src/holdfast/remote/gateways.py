"""The addresses of gateways, and the token that they are given.

`holdfast://host:8787` is one gateway, `holdfast://a:8787,b:8787` are two of one store; `holdfasts://` uses
TLS. `http://` and `https://` mean the same.
"""

from __future__ import annotations

import importlib.util
from typing import Final

import msgspec

from holdfast.core.address import check_address, check_url, is_gateway, shown_url
from holdfast.errors import BadConfig, MissingExtra

PORT: Final = 8787
_SCHEMES: Final = {
    "holdfast": "http",
    "holdfasts": "https",
    "http": "http",
    "https": "https",
}


class Gateways(msgspec.Struct, frozen=True):
    """The gateways of one store."""

    urls: tuple[str, ...]
    """With `http` or `https`, without a slash at their end."""
    token: str

    def websocket_url(self, turn: int) -> str:
        """The address of worker sync at a gateway."""
        return f"ws{self.urls[turn % len(self.urls)].removeprefix('http')}/api/v1/worker/ws"


def gateways_of(url: str, token: str | None) -> Gateways:
    """BadConfig for an address or a token that cannot be used, MissingExtra without the packages."""
    if not is_gateway(check_address(url)):
        raise BadConfig(f"'{shown_url(url)}' is not a gateway: write holdfast://host:{PORT}")
    check_url(url)
    scheme, _, rest = url.partition("://")
    hosts, slash, path = rest.partition("/")
    if "@" in hosts:
        raise BadConfig(
            f"'{shown_url(url)}' has a login: a gateway takes a token, give it as token=..."
        )
    base = path.rstrip("/")
    names = [host if _has_port(host) else f"{host}:{PORT}" for host in hosts.split(",") if host]
    if not names:
        raise BadConfig(f"'{shown_url(url)}' names no host: write holdfast://host:{PORT}")
    if not token:
        raise BadConfig(
            f"the gateway {shown_url(url)} needs a token: TaskQueue(url, token=...), --token or "
            "HOLDFAST_TOKEN; `holdfast server` prints one, `holdfast token create` makes others"
        )
    if not token.isascii() or len(token.split()) != 1:
        raise BadConfig("the token has a blank or a character that a header cannot carry")
    for name in ("httpx2", "websockets"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"a gateway is reached with {name}: pip install 'holdfast[client]'")
    tail = f"/{base}" if slash and base else ""
    return Gateways(tuple(f"{_SCHEMES[scheme]}://{name}{tail}" for name in names), token)


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]
