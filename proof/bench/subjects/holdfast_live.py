"""Holdfast's server: its live feed with many subscribers, and its REST calls. One commit each 50 events where
throughput is measured."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from holdfast import TaskQueue
from holdfast.core.event import Position
from holdfast.gateway.server import Listening, Server, new_metrics
from holdfast.gateway.settings import ServerSettings
from proof.bench.live.rest import RestSubject
from proof.bench.live.subject import LiveSubject, cpu_seconds
from proof.lab.subject import main

ADMIN = "hf_admin_" + "b" * 40
BULK = 1_000
LATE_EVENTS = 100
"""Events that dropped clients have missed."""
SETTLED = "task.status_changed"


class HoldfastLive(LiveSubject, RestSubject):
    """The whole server: authentication, store, feed."""

    async def serve(self) -> int:
        """Without workers: the tasks stay queued, each has one event."""
        metrics = new_metrics()
        self.queue = TaskQueue(self.options.url, meter=metrics)
        self.queue.register_handler("noop", _noop)
        settings = ServerSettings(port=0, admin_token=ADMIN)
        self.server = Server(self.queue, settings, metrics=metrics, loops=False)
        ready: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
        self.serving = asyncio.create_task(self.server.run(ready.set_result))
        # A server that does not start fails here.
        self.serving.add_done_callback(lambda task: ready.done() or ready.cancel(str(task)))
        return (await ready).port

    async def unserve(self) -> None:
        """Stops it."""
        self.server.stop()
        await self.serving

    def setting(self, position: str = "now", **_: Any) -> dict[str, Any]:
        """Subscribed to a project."""
        wish = {"type": "subscribe", "channel": "project:default", "position": position}
        headers = [f"Authorization: Bearer {ADMIN}", "Sec-WebSocket-Protocol: holdfast.v1"]
        return {
            "port": self.port,
            "path": "/api/v1/ws",
            "headers": headers,
            "hello": [json.dumps(wish)],
            "prefix": '{"type":"' + SETTLED,
            "ready": '{"type":"bookmark"',
        }

    async def publish(self, n: int) -> None:
        """One transaction with n events."""
        for start in range(0, n, BULK):
            size = min(BULK, n - start)
            await self.queue.enqueue_many([{"type": "noop"} for _ in range(size)])

    async def _head(self) -> Position:
        return await self.queue.parts.feed.position()

    async def op_resume(self, n: int) -> dict[str, float]:
        """All clients are dropped at once, and come back with their position."""
        await self.clients.ask("open", n=n, setting=self.setting())
        position = await self._head()
        await self.clients.ask("drop")
        await self.publish(LATE_EVENTS)
        cpu, started = cpu_seconds(), time.monotonic()
        await self.clients.ask("open", n=n, setting=self.setting(position=str(position)))
        at = await self.clients.ask("wait", count=LATE_EVENTS)
        return {"seconds": at - started, "cpu": (cpu_seconds() - cpu) / n * 1e3}

    async def op_behind(self, n: int) -> dict[str, float]:
        """One client that is n events behind. The server has just started: they are not in its memory."""
        position = await self._head()
        await self.publish(n)
        await self.unserve()
        self.port = await self.serve()
        cpu, started = cpu_seconds(), time.monotonic()
        await self.clients.ask("open", n=1, setting=self.setting(position=str(position)))
        at = await self.clients.ask("wait", count=n)
        return {"rate": n / (at - started), "seconds": at - started, "cpu": cpu_seconds() - cpu}

    def request(self) -> tuple[str, str, object]:
        """One task."""
        return (
            "/api/v1/tasks",
            f"Authorization: Bearer {ADMIN}",
            {"type": "noop", "payload": {"n": 1}},
        )


async def _noop(_: object) -> None:
    return None


if __name__ == "__main__":
    main(HoldfastLive)
