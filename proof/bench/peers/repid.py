"""Repid on Redis streams. Recovery of lost messages is off by default, on for the crash."""

from __future__ import annotations

from typing import Any

from repid import RedisServer, Repid, Router

from proof.bench.probe import KINDS, run_async as handle
from proof.bench.subject import QueueSubject
from proof.lab.subject import main, run_async


class RepidSubject(QueueSubject):
    """One channel per kind; its default worker (a thousand tasks at once, batches of ten)."""

    def _app(self) -> Repid:
        recovery: dict[str, Any] = {}
        if self.options.scenario == "crash":
            recovery = {"claim_interval": 5.0, "min_idle_ms": 30_000}
        app = Repid()
        self.server = RedisServer(self.options.url, **recovery)
        app.servers.register_server("default", self.server, is_default=True)
        return app

    async def open(self) -> None:
        """Connect."""
        self.app = self._app()
        await self.server.connect()

    async def close(self) -> None:
        """Disconnect."""
        await self.server.disconnect()

    async def enqueue(self, kind: str, arg: int) -> None:
        """One message."""
        await self.app.send_message_json(
            channel=kind, payload={"arg": arg}, headers={"topic": kind}
        )

    def work(self) -> None:
        """Until killed."""
        run_async(self._work())

    async def _work(self) -> None:
        app, router = self._app(), Router()
        for kind in KINDS:
            router.actor(_handler(kind), name=kind, channel=kind)
        app.include_router(router)
        async with self.server.connection():
            await app.run_worker(tasks_limit=self.options.concurrency or 1_000)


def _handler(kind: str):  # type: ignore[no-untyped-def]
    async def handler(arg: int) -> None:
        await handle(kind, arg)

    return handler


if __name__ == "__main__":
    main(RepidSubject)
