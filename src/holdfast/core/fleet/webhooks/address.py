"""Which addresses webhooks may be sent to.

Promises: without an entry of `webhooks.allow`, an endpoint is reached over TLS and at public addresses only:
not at those of this machine, of private networks, of the link (which have metadata services), nor at ranges
that stand for such an address. Never: resolves a name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

import msgspec

from holdfast.core.check import check_text, shown
from holdfast.errors import BadConfig, InvalidInput

URL_CHARS_MAX: Final = 2_000
PORT_MAX: Final = 65_535
NAME_CHARS_MAX: Final = 253
LABEL_CHARS_MAX: Final = 63
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?:(?P<name>[A-Za-z0-9_.-]+)|\[(?P<v6>[0-9A-Fa-f:.]+)\])(?::(?P<port>\d{1,5}))?"
    r"(?P<path>/[^\s#]*)?",
)
_NAT64: Final = ip_network("64:ff9b::/96")
_INSIDE: Final = tuple(
    ip_network(text)
    for text in (
        # The platform address of Azure, which answers its machines only.
        "168.63.129.16/32",
        # Protocol assignments, which hosts use on their own link, and relays of 6to4.
        "192.0.0.0/24",
        "192.88.99.0/24",
        # IPv4-compatible and IPv4-translated addresses, and NAT64 of one network (RFC 8215): they stand for
        # IPv4 addresses, of any kind.
        "::/96",
        "::ffff:0:0:0/96",
        "64:ff9b:1::/48",
        # Site-local addresses, documentation (RFC 9637), segment routing (RFC 9602).
        "fec0::/10",
        "3fff::/20",
        "5f00::/16",
    )
)
"""What the lists of some interpreters have as global."""
Address: TypeAlias = IPv4Address | IPv6Address


class WebhookTarget(msgspec.Struct, frozen=True):
    """An address of an endpoint in its parts."""

    is_tls: bool
    host: str
    """Lower case, without brackets."""
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the header `host`."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == self._usual_port else f"{name}:{self.port}"

    def at(self, address: str) -> str:
        """The URL with an IP address in place of the name."""
        name = f"[{address}]" if ":" in address else address
        return f"http{'s' if self.is_tls else ''}://{name}:{self.port}{self.path}"

    @property
    def _usual_port(self) -> int:
        return 443 if self.is_tls else 80


class AddressRules:
    """The addresses that an operator allows beside public ones: names of hosts, addresses, networks."""

    def __init__(self, allow: Sequence[str] = ()) -> None:
        """BadConfig for a text that is none of them."""
        self._names: set[str] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for text in allow:
            try:
                self._networks.append(ip_network(text, strict=False))
            except ValueError:
                if re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", text) is None or "/" in text:
                    raise BadConfig(
                        f"allow has {shown(text)}: give a host, an address or a network such as 10.0.0.0/8"
                    ) from None
                self._names.add(text.lower())

    def parse(self, url: str) -> WebhookTarget:
        """The parts of a URL. InvalidInput unless it is one that may be sent to, as far as the text tells."""
        check_text("url", url, most=URL_CHARS_MAX)
        match = _URL.fullmatch(url)
        if match is None:
            raise InvalidInput(
                "url is not an address of an endpoint: give https://host[:port]/path, without a login and "
                "without a fragment"
            )
        is_tls = match["scheme"] == "https"
        host = (match["name"] or match["v6"]).lower()
        if match["name"] is not None and not _is_name(host):
            raise InvalidInput(
                f"url names the host {shown(host)}: a part between dots has 1 to {LABEL_CHARS_MAX} "
                f"characters, the name at most {NAME_CHARS_MAX}"
            )
        port = int(match["port"] or (443 if is_tls else 80))
        if not 0 < port <= PORT_MAX:
            raise InvalidInput(f"url has the port {port}: give one from 1 to {PORT_MAX}")
        target = WebhookTarget(is_tls, host, port, match["path"] or "/")
        address = _address(host)
        if address is not None and not self.allows(target, address):
            raise InvalidInput(
                f"url names {address}, which is no public address: allow it in `webhooks.allow`"
            )
        if not is_tls and host not in self._names and not (address and self._listed(address)):
            raise InvalidInput(
                "url starts with http: use https, or allow the host in `webhooks.allow`"
            )
        return target

    def allows(self, target: WebhookTarget, address: Address) -> bool:
        """Whether a request for the target may go to this address, which its name resolved to."""
        return target.host in self._names or self._listed(address) or is_public(address)

    def _listed(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def is_public(address: Address) -> bool:
    """Whether the address is one of the open internet. One that wraps an IPv4 address counts as that."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None:
            return False
    if any(address in network for network in _INSIDE):
        return False
    return address.is_global and not address.is_multicast


def _is_name(host: str) -> bool:
    """Whether the host can be looked up. A name may end in a dot."""
    labels = host.removesuffix(".").split(".")
    return len(host) <= NAME_CHARS_MAX and all(
        0 < len(label) <= LABEL_CHARS_MAX for label in labels
    )


def _address(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
