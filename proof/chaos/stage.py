"""One subject on one store: its worker processes, its producer, the proxy between them, and the journals."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from proof.chaos.journal import END, Reader
from proof.chaos.plan import WORKERS, Plan
from proof.chaos.score import first_ends
from proof.chaos.stores import SmallDisk, Store
from proof.lab.processes import WorkerTree
from proof.lab.proxy import Proxy
from proof.lab.session import Session, SubjectError

POLL_SECONDS = 0.25
CALL_SECONDS = 120.0


class Stage:
    """The objects that a case acts on."""

    def __init__(
        self,
        store: Store,
        plan: Plan,
        session: Session,
        *,
        proxy: Proxy | None = None,
        disk: SmallDisk | None = None,
    ) -> None:
        self.store = store
        self.plan = plan
        self.session = session
        self._proxy = proxy
        self._disk = disk
        self.workers: list[WorkerTree] = []
        self.removed = 0
        """Workers that the case itself has killed."""
        self.reader = Reader(session.probe)
        self.struck = self.healed = 0.0
        self.notes: dict[str, Any] = {}

    @property
    def proxy(self) -> Proxy:
        assert self._proxy is not None
        return self._proxy

    @property
    def disk(self) -> SmallDisk:
        assert self._disk is not None
        return self._disk

    def strike(self) -> None:
        """The fault begins now."""
        self.struck = self.healed = time.monotonic()

    def heal(self) -> None:
        """The fault is over: remaining problems are the subject's."""
        self.healed = time.monotonic()

    def hire(self, url: str) -> None:
        """Starts the workers. A worker that ends stays down."""
        self.workers = self.session.workers(WORKERS, url=url)
        for worker in self.workers:
            worker.go()

    def call(self, op: str, **more: Any) -> dict[str, Any]:
        """Calls an operation of the producer."""
        return self.session.call({"op": op, **more}, CALL_SECONDS)

    def ends(self) -> list[float]:
        """First ends so far, in order of time."""
        return first_ends(self.reader.update())

    async def first_end(self, limit: float) -> None:
        """Waits until the first job has ended."""
        until = time.monotonic() + limit
        while not any(line.word == END for line in self.reader.update()):
            if time.monotonic() > until or not any(worker.alive() for worker in self.workers):
                message = "no job ended before the fault"
                raise SubjectError(message)
            await asyncio.sleep(POLL_SECONDS)

    def died(self) -> int:
        """Worker processes that ended and that the case did not kill."""
        return sum(not worker.alive() for worker in self.workers) - self.removed

    def dismiss(self) -> None:
        for worker in self.workers:
            worker.kill()
