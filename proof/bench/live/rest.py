"""Callers of an HTTP server, each with a connection that is kept."""

from __future__ import annotations

import json
from typing import Any

from proof.bench.live.subject import Clients, cpu_seconds
from proof.lab.subject import Subject

WARM_UP = 200


class RestSubject(Subject):
    """``clients`` and ``port`` are set by ``open``; override :meth:`request`."""

    clients: Clients
    port: int

    def request(self) -> tuple[str, str, object]:
        """Path, a header, body."""
        raise NotImplementedError

    async def op_rest(self, n: int, callers: int) -> dict[str, float]:
        """POST of one task, each acknowledged after its commit."""
        path, header, body = self.request()
        data = json.dumps(body)
        lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", header]
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}", "", data]
        fields: dict[str, Any] = {"callers": callers, "port": self.port}
        fields["request"] = "\r\n".join(lines)
        await self.clients.ask("http", n=WARM_UP, **fields)
        cpu = cpu_seconds()
        seconds = await self.clients.ask("http", n=n, **fields)
        return {"rate": n / seconds, "cpu": (cpu_seconds() - cpu) / n * 1e6}
