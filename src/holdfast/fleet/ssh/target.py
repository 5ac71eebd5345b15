"""Where a host is, and how the server logs in there."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from holdfast.core.address import PORT_MAX
from holdfast.core.check import shown
from holdfast.errors import BadConfig

PORT: Final = 22
_ADDRESS: Final = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@\s/]+)@)?(?:\[(?P<six>[^\]\s]+)\]|(?P<host>[^:@\s/\[\]]+))(?::(?P<port>\d{1,5}))?/?"
)


class SshOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the server logs in."""

    user: str | None = None
    """Where the address of a host names none. None: the user of the server."""
    key_files: tuple[str, ...] = ()
    """Private keys. Empty: those of the user, and of an agent of SSH."""
    known_hosts: str | None = None
    """A file with the keys of hosts. None: that of the user. A host with another key is refused."""
    python: str = "python3"
    """The interpreter on the host: 3.9 or later."""
    folder: str = ".local/state/holdfast-ssh"
    """Where a machine keeps journal and output, below the home of the user: a folder for each host."""
    connect_seconds: float = 15.0
    keepalive_seconds: float = 15.0
    """A connection that is silent three times this long has ended."""


class SshTarget(msgspec.Struct, frozen=True):
    """The address of a host."""

    host: str
    port: int = PORT
    user: str | None = None


def read_target(address: str, name: str) -> SshTarget:
    """`[user@]host[:port]`; without an address the name of the host counts. BadConfig for anything else."""
    text = address or name
    match = _ADDRESS.fullmatch(text)
    port = int(match["port"] or PORT) if match else 0
    if match is None or not 1 <= port <= PORT_MAX:
        raise BadConfig(f"the address {shown(text)} cannot be read: write [user@]host[:port]")
    return SshTarget(match["six"] or match["host"], port, match["user"])
