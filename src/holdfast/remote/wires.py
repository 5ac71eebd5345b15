"""How a queue behind a gateway reaches it. The defaults are HTTP and WebSocket; a simulation has others."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2

from holdfast.remote.channel import Connect


@dataclass(frozen=True, kw_only=True, slots=True)
class Wires:
    """The transports of one queue."""

    open_channel: Connect | None = None
    """None: by the address of the gateway."""
    transport: httpx2.AsyncBaseTransport | None = None
    host: str = ""
    """The name of this machine and process. '' for host name and process id."""
