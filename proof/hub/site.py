"""The processes of a run: servers, gateways, workers, audiences, offline nodes.

A process that ends is started again, as a supervisor would do it. What ends by itself after it was ready is
noted: that is a finding, unless the run ended it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from proof.lab.processes import ROOT, tied

RESTART_SECONDS = 0.2
POLL_SECONDS = 0.03
READY_SECONDS = 90.0
STOP_SECONDS = 25.0
"""A bound for a graceful stop: the times of the queue and of `engine.drain`, and a loaded machine."""


class Kept:
    """A process that is started again whenever it ends."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        *,
        env: dict[str, str] | None = None,
        ready: str = "",
    ) -> None:
        """`ready`: the text in its output that says that it works; empty: at once."""
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        own = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
        path = os.pathsep.join([str(ROOT), *filter(None, [own.get("PYTHONPATH")])])
        self._env = own | {"PYTHONPATH": path} | (env or {})
        self._cwd = folder
        self._ready = ready.encode()
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_expected = False
        self._is_ready = False
        self._hold_until = 0.0
        self._stopped_at = 0.0
        self.starts = 0
        self.early = 0
        """How often it ended before it was ready, e.g. because the store did not answer."""
        self.deaths: list[int] = []
        """Exit codes of ends that the run did not cause, after the process was ready."""
        self.stops: list[tuple[float, int]] = []
        """How long each graceful stop took, and its exit code: -9 if a fault was faster."""
        self.slow_stops: list[float] = []
        """Stops that took longer than `STOP_SECONDS`."""

    def start(self) -> None:
        self._keeper = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    @property
    def is_up(self) -> bool:
        return self._is_ready and self._process is not None and self._process.returncode is None

    async def ready(self) -> None:
        """Waits until it works."""
        async with asyncio.timeout(READY_SECONDS):
            await until(lambda: self.is_up)

    def kill(self, down_seconds: float = 0.0) -> bool:
        """kill -9. It is started again after that time. Returns whether it ran."""
        return self._signal(signal.SIGKILL, down_seconds)

    def terminate(self, down_seconds: float = 0.0) -> bool:
        """A graceful stop."""
        return self._signal(signal.SIGTERM, down_seconds)

    def pause(self) -> bool:
        """SIGSTOP: it keeps its connections and does nothing."""
        return self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def _signal(self, number: signal.Signals, down_seconds: float) -> bool:
        self._hold_until = time.monotonic() + down_seconds
        if not self._send(number):
            return False
        self._is_expected = True
        if number == signal.SIGTERM and self._is_ready and not self._stopped_at:
            self._stopped_at = time.monotonic()
        self._send(signal.SIGCONT)
        return True

    def _send(self, number: signal.Signals) -> bool:
        if self._process is None or self._process.returncode is not None:
            return False
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
            return True
        return False

    async def end(self) -> None:
        """Stops it in good order, for good; kills it if that takes too long."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        process = self._process
        if process is None:
            return
        start = time.monotonic()
        self._send(signal.SIGCONT)
        self._send(signal.SIGTERM)
        if process.returncode is not None:
            return
        try:
            async with asyncio.timeout(STOP_SECONDS * 1.2):
                await process.wait()
        except TimeoutError:
            self._send(signal.SIGKILL)
        self._stopped(time.monotonic() - start, await process.wait())

    async def discard(self) -> None:
        """kill -9, for good."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._send(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    async def _keep(self) -> None:
        while True:
            size = self.log.stat().st_size if self.log.exists() else 0
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *tied(*self._command), cwd=self._cwd, env=self._env, stdout=log, stderr=log
                )
            self.starts += 1
            self._is_expected = self._is_ready = False
            self._stopped_at = 0.0
            watching = asyncio.create_task(self._watch_log(size))
            code = await self._process.wait()
            watching.cancel()
            self._count(code)
            pause = max(RESTART_SECONDS, self._hold_until - time.monotonic())
            await asyncio.sleep(pause)

    def _stopped(self, seconds: float, code: int) -> None:
        self.stops.append((seconds, code))
        if seconds > STOP_SECONDS:
            self.slow_stops.append(round(seconds, 1))

    def _count(self, code: int) -> None:
        if self._stopped_at:
            self._stopped(time.monotonic() - self._stopped_at, code)
        if self._is_expected:
            return
        if self._is_ready:
            self.deaths.append(code)
        else:
            self.early += 1

    async def _watch_log(self, start: int) -> None:
        while not self._is_ready:
            with self.log.open("rb") as log:
                log.seek(start)
                self._is_ready = self._ready in log.read()
            await asyncio.sleep(POLL_SECONDS)


def module(name: str, *arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", name, *arguments]


async def until(is_so: Callable[[], bool]) -> None:
    """Waits for something in another process."""
    while not is_so():  # noqa: ASYNC110 - nothing here says when it changes
        await asyncio.sleep(POLL_SECONDS)
