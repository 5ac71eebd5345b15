"""Addresses of gateways and the token for them: read in one way by queues, clients, nodes and commands.

    holdfast://host:8787                      one gateway; holdfasts:// uses TLS
    holdfast://a:8787,b:8787                  two gateways of one store
    http://a:8787,http://b:8787               the same; also as a list
    grpc://host:8787                          the same gateway; workers speak gRPC with it if it announces it

Without a port, `http` and `https` mean 80 and 443, the others 8787. Options follow a question mark:
`?ca=FILE&cert=FILE&key=FILE` for TLS, and `grpc_port=N` where gRPC is reached through another port than the
announced one. Never: a token or a password in a message.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from holdfast.core.address import HIDDEN, PORT_MAX, check_address, shown_url
from holdfast.core.check import shown
from holdfast.errors import BadConfig

PORT: Final = 8787
EXAMPLE: Final = f"write holdfast://host:{PORT}, or holdfasts://host:{PORT} for TLS"
_SCHEMES: Final = {
    "holdfast": "http",
    "holdfasts": "https",
    "http": "http",
    "https": "https",
    "grpc": "http",
    "grpcs": "https",
}
_WEB: Final = ("http", "https")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[\w.~-]+)(?::(.*))?")
OPTIONS: Final = ("ca", "cert", "key", "grpc_port")


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
        except OSError as error:  # ssl.SSLError is one
            raise _unusable(f"ca={self.ca}", error) from None
        if self.cert is not None:
            try:
                made.load_cert_chain(self.cert, self.key)
            except OSError as error:
                if self.key is None:
                    advice = "; its file has no key: name the one of the key with &key=FILE"
                    raise _unusable(f"cert={self.cert}", error, advice) from None
                raise _unusable(f"cert={self.cert}&key={self.key}", error) from None
        return made


def _unusable(option: str, error: OSError, advice: str = "") -> BadConfig:
    why = f"{error.strerror or error}{advice if isinstance(error, ssl.SSLError) else ''}"
    return BadConfig(f"{option} in the address of the gateway cannot be used: {why}")


class Addresses(msgspec.Struct, frozen=True):
    """The gateways of one store."""

    urls: tuple[str, ...]
    """With `http` or `https`, without a slash at their end."""
    prefers_grpc: bool = False
    grpc_port: int | None = None
    """None: the announced one."""
    tls: Tls = Tls()


def read_addresses(given: str | Sequence[str]) -> Addresses:
    """BadConfig for what is no address of a gateway."""
    text = given if isinstance(given, str) else ",".join(check_address(part) for part in given)
    text = check_address(text).strip()
    named, _, query = text.partition("?")
    if not named:
        raise BadConfig(f"the address of a gateway is missing: {EXAMPLE}")
    parts = [part.strip() for part in named.split(",")]
    if not all(parts):
        named = ",".join(map(shown_url, parts))
        raise BadConfig(
            f"a gateway is missing in '{named}', beside a comma: name it, or leave the comma out"
        )
    urls: list[str] = []
    schemes: list[str] = []
    group: list[str] = []
    for part in parts:
        scheme, separator, rest = part.partition("://")
        if separator:
            schemes.append(_known(scheme, text))
            urls += _urls(schemes[-2:][0], group)
            group = [rest]
        elif schemes:
            group.append(part)
        else:
            raise BadConfig(f"'{shown_url(text)}' has no scheme: {EXAMPLE}")
    urls += _urls(schemes[-1], group)
    if len({_SCHEMES[scheme] for scheme in schemes}) > 1:
        raise BadConfig(
            f"'{shown_url(text)}' has gateways with TLS and without: use one scheme for all of them"
        )
    grpc_port, tls = _options(query)
    return Addresses(tuple(urls), schemes[0] in ("grpc", "grpcs"), grpc_port, tls)


def check_token(token: str) -> str:
    """The token without blanks around it. BadConfig for one that a header cannot carry."""
    bare = token.strip()
    if not bare:
        raise BadConfig(
            "the token is empty: give token=..., --token or HOLDFAST_TOKEN; `holdfast server` prints one, "
            "`holdfast token create` makes others"
        )
    if not all("!" <= character <= "~" for character in bare):
        raise BadConfig("the token has a blank or a character that a header cannot carry")
    return bare


def _known(scheme: str, text: str) -> str:
    if scheme not in _SCHEMES:
        raise BadConfig(f"'{shown_url(text)}' is not the address of a gateway: {EXAMPLE}")
    return scheme


def _urls(scheme: str, group: Sequence[str]) -> list[str]:
    """The addresses of hosts behind one scheme. A path behind the last of them is that of all."""
    if not group:
        return []
    hosts = [host.partition("/") for host in group]
    last = hosts[-1][2].rstrip("/")
    made = []
    for host, _, path in hosts:
        tail = path.rstrip("/") or last
        made.append(f"{_SCHEMES[scheme]}://{_checked(scheme, host)}{f'/{tail}' if tail else ''}")
    return made


def _checked(scheme: str, host: str) -> str:
    """The host with its port."""
    if "@" in host:
        raise BadConfig(
            f"'{shown_url(f'{scheme}://{host}')}' has a login: a gateway takes a token, give it as token=..."
        )
    if not host:
        raise BadConfig(f"'{scheme}://' names no host: {EXAMPLE}")
    match = _HOST.fullmatch(host)
    if match is None:
        raise BadConfig(
            f"the host of '{scheme}://{host.partition(':')[0]}' cannot be read: {EXAMPLE}; an IPv6 address "
            "stands in brackets"
        )
    name, port = match[1], match[2]
    if not port:
        return name if scheme in _WEB else f"{name}:{PORT}"
    is_number = port.isascii() and port.isdigit()
    if not is_number or not 1 <= int(port[:6]) <= PORT_MAX:
        # Digits are shown; other text may be a password whose host is missing.
        quoted = port if is_number and len(port) <= 10 else HIDDEN
        raise BadConfig(
            f"the port of {scheme}://{name}:{quoted} is not one: give a number from 1 to {PORT_MAX}; "
            f"`holdfast server` listens at {PORT}"
        )
    return f"{name}:{int(port)}"


def _options(query: str) -> tuple[int | None, Tls]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(given.keys() - set(OPTIONS)):
        raise BadConfig(
            f"the address of a gateway has no option {shown(unknown[0])}: use {', '.join(OPTIONS)}"
        )
    port = given.pop("grpc_port", None)
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
        raise BadConfig(f"grpc_port is '{port}': give a port from 1 to {PORT_MAX}")
    tls = Tls(**given)
    if tls.key is not None and tls.cert is None:
        raise BadConfig("the address of a gateway has a key without a cert: give both")
    return None if port is None else int(port), tls
