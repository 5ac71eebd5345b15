"""The addresses of gateways, the token that they are given, and how they are reached.

`holdfast://host:8787` is one gateway, `holdfast://a:8787,b:8787` are two of one store; `holdfasts://` uses
TLS. `http://` and `https://` mean the same. `grpc://` and `grpcs://` name the same gateways: workers speak
gRPC with those that announce it. Options stand behind a question mark: `?ca=FILE&cert=FILE&key=FILE` for TLS,
and `grpc_port=N` where gRPC is reached through another port than the announced one.
"""

from __future__ import annotations

import importlib.util
import ssl
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from holdfast.core.address import PORT_MAX, check_address, check_url, is_gateway, shown_url
from holdfast.errors import BadConfig, MissingExtra

PORT: Final = 8787
_SCHEMES: Final = {
    "holdfast": "http",
    "holdfasts": "https",
    "http": "http",
    "https": "https",
    "grpc": "http",
    "grpcs": "https",
}


class Tls(msgspec.Struct, frozen=True):
    """Files in PEM. Without `ca`, the authorities of the system count."""

    ca: str | None = None
    cert: str | None = None
    """Of this client, for gateways that require one."""
    key: str | None = None

    def context(self) -> ssl.SSLContext | None:
        """For HTTPS and WebSocket. None: the default. BadConfig for a file that cannot be used."""
        if self == Tls():
            return None
        try:
            made = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                made.load_cert_chain(self.cert, self.key)
        except OSError as error:  # ssl.SSLError is one
            raise BadConfig(f"a certificate for the gateway cannot be used: {error}") from None
        return made


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

    def websocket_url(self, turn: int) -> str:
        """The address of worker sync at a gateway."""
        return f"ws{self.urls[turn % len(self.urls)].removeprefix('http')}/api/v1/worker/ws"


def gateways_of(url: str, token: str | None) -> Gateways:
    """BadConfig for an address or a token that cannot be used, MissingExtra without the packages."""
    if not is_gateway(check_address(url)):
        raise BadConfig(f"'{shown_url(url)}' is not a gateway: write holdfast://host:{PORT}")
    check_url(url)
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    hosts, slash, path = rest.partition("/")
    if "@" in hosts:
        raise BadConfig(
            f"'{shown_url(url)}' has a login: a gateway takes a token, give it as token=..."
        )
    base = path.rstrip("/")
    names = [host if _has_port(host) else f"{host}:{PORT}" for host in hosts.split(",") if host]
    if not names:
        raise BadConfig(f"'{shown_url(url)}' names no host: write holdfast://host:{PORT}")
    checked = _checked(token, url)
    for name in ("httpx2", "websockets"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"a gateway is reached with {name}: pip install 'holdfast[client]'")
    tail = f"/{base}" if slash and base else ""
    urls = tuple(f"{_SCHEMES[scheme]}://{name}{tail}" for name in names)
    grpc_port, tls = _options(query)
    return Gateways(urls, checked, scheme in ("grpc", "grpcs"), grpc_port, tls)


def grpc_target(websocket_url: str, port: int) -> str:
    """The address of gRPC at the gateway of a WebSocket."""
    host = urlsplit(websocket_url).hostname or ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _checked(token: str | None, url: str) -> str:
    if not token:
        raise BadConfig(
            f"the gateway {shown_url(url)} needs a token: TaskQueue(url, token=...), --token or "
            "HOLDFAST_TOKEN; `holdfast server` prints one, `holdfast token create` makes others"
        )
    if not token.isascii() or len(token.split()) != 1:
        raise BadConfig("the token has a blank or a character that a header cannot carry")
    return token


def _options(query: str) -> tuple[int | None, Tls]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    known = ("ca", "cert", "key", "grpc_port")
    if unknown := sorted(given.keys() - set(known)):
        raise BadConfig(
            f"the address of a gateway has no option '{unknown[0]}': use {', '.join(known)}"
        )
    port = given.pop("grpc_port", None)
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
        raise BadConfig(f"grpc_port is '{port}': give a port from 1 to {PORT_MAX}")
    tls = Tls(**given)
    if tls.key is not None and tls.cert is None:
        raise BadConfig("the address of a gateway has a key without a cert: give both")
    return None if port is None else int(port), tls


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]
