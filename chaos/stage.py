"""One subject on one store: its worker processes, its producer, the proxy between, and what they did."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.servers import die_with_parent
from benchmarks.session import Session, SubjectError
from benchmarks.subjects._tree import WorkerTree
from benchmarks.venvs import ROOT
from chaos.journal import END, Reader
from chaos.plan import WORKERS, Plan
from chaos.proxy import Proxy
from chaos.registry import SubjectSpec
from chaos.score import first_ends
from chaos.stores import SmallDisk, Store

POLL_SECONDS = 0.25
CALL_SECONDS = 120.0


class Worker(WorkerTree):
    """One worker process with whatever it forks. Nobody restarts it."""

    def __init__(self, spec: SubjectSpec, python: Path, env: dict[str, str], log: Path) -> None:
        with log.open("ab") as stderr:
            proc = subprocess.Popen(
                [str(python), "-m", spec.module, "worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env=env,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(signal.SIGKILL),  # noqa: PLW1509 - see servers
            )
        self.procs = [proc]
        assert proc.stdout
        if proc.stdout.readline() != b"ready\n":
            self.kill()
            message = "a worker process ended before it was ready"
            raise SubjectError(message)

    def signal(self, sig: signal.Signals) -> None:
        """To every process of the tree."""
        for pid, _ in list(self.pids()):
            os.kill(pid, sig)


class Stage:
    """What a case strikes."""

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
        self.workers: list[Worker] = []
        self.removed = 0
        """Workers that the case itself has killed."""
        self.reader = Reader(Path(session.probe.name))
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
        """The fault is over: whatever is still wrong is the subject's."""
        self.healed = time.monotonic()

    def hire(self, spec: SubjectSpec, python: Path, url: str, log: Path) -> None:
        """Starts the workers."""
        env = os.environ | {
            "BENCH_OPTIONS": json.dumps({"url": url, "scenario": "chaos"}),
            "BENCH_PROBE": self.session.probe.name,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "DO_NOT_TRACK": "1",
        }
        for _ in range(WORKERS):
            self.workers.append(Worker(spec, python, env, log))
        for worker in self.workers:
            worker.go()

    def call(self, op: str, **more: Any) -> dict[str, Any]:
        """An operation of the producer."""
        return self.session.call({"op": op, **more}, CALL_SECONDS)

    def ends(self) -> list[float]:
        """First ends so far, by time."""
        return first_ends(self.reader.update())

    async def first_end(self, limit: float) -> None:
        """Until some job has ended: the workers are at work."""
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
