"""Bounds by network address: wrong credentials, and requests that make credentials.

Promises: an address that sends wrong credentials is slowed down before the store is asked. A credential that
was accepted lately is not slowed down by others behind its address. Memory is bounded.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

from starlette.requests import HTTPConnection

from holdfast.core.token import token_digest
from holdfast.gateway.auth.rate import RateLimit

PER_SECOND: Final = 5.0
FAILURES_BURST: Final = 20
"""Wrong credentials of an address at once."""
ENTRIES_BURST: Final = 50
"""Registrations and tickets of an address at once."""
ACCEPTED_MAX: Final = 10_000
"""Credentials that are remembered as accepted."""
NETWORK_BITS: Final = 64
"""An IPv6 host has a whole network of this size."""
HOSTS_KEPT: Final = 10_000
"""Hosts whose networks are remembered: each request asks for one."""
HOST_CHARS_MAX: Final = 100
"""No address is longer, with its zone. A local proxy may name any text as the client."""


class AddressLimits:
    """The bounds of one gateway."""

    def __init__(self) -> None:
        self._failures = RateLimit(PER_SECOND, FAILURES_BURST, "wrong credentials")
        self._entries = RateLimit(PER_SECOND, ENTRIES_BURST, "registrations or tickets")
        self._accepted: dict[str, None] = {}

    def check(self, address: str, secret: str, now: float) -> None:
        """RateLimited if the address has sent too many wrong credentials."""
        if token_digest(secret) not in self._accepted:
            self._failures.check(address, now)

    def failed(self, address: str, now: float) -> None:
        """Counts a wrong credential."""
        self._failures.take(address, now)

    def accepted(self, secret: str) -> None:
        """Remembers a credential by its digest. The oldest is forgotten first."""
        digest = token_digest(secret)
        self._accepted.pop(digest, None)
        self._accepted[digest] = None
        if len(self._accepted) > ACCEPTED_MAX:
            del self._accepted[next(iter(self._accepted))]

    def enter(self, address: str, now: float) -> None:
        """Counts a registration or a ticket. RateLimited if there were too many."""
        self._entries.take(address, now)


def address_of(connection: HTTPConnection) -> str:
    """The address of the client, as its bounds are counted."""
    return network_of(connection.client.host if connection.client is not None else "")


def address_of_peer(peer: str) -> str:
    """The same of a peer of gRPC: `ipv4:10.0.0.7:5123`, `ipv6:%5B2001:db8::1%5D:5123`."""
    kind, _, rest = peer.partition(":")
    host = rest.rpartition(":")[0].removeprefix("%5B").removesuffix("%5D").strip("[]")
    return network_of(host) if kind in ("ipv4", "ipv6") else ""


def network_of(host: str) -> str:
    """An IPv4 address, or the network of an IPv6 address; another text as it is."""
    return host if len(host) > HOST_CHARS_MAX else _network_of(host)


@lru_cache(HOSTS_KEPT)
def _network_of(host: str) -> str:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> NETWORK_BITS << NETWORK_BITS))
