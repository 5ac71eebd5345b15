"""Several worker processes under one parent.

Promises: a process that ends by itself is restarted after a growing pause; a process that dies too often
ends all, with its exit code; signals reach the children once; children end when the parent is killed.
Never: runs tasks itself, or restarts a process that cannot start (a wrong module name).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import Process
from collections import deque
from typing import Final

from holdfast.cli.worker.signals import INTERRUPTED, PARENT_VARIABLE, Stops
from holdfast.clock import Clock, SystemClock
from holdfast.errors import BadConfig, StoreUnavailable

DEATHS_MAX: Final = 5
WINDOW_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.5
PAUSE_SECONDS_MAX: Final = 10.0
NEVER_STARTS: Final = BadConfig.exit_code
UNAVAILABLE: Final = StoreUnavailable.exit_code
"""The store is unavailable: the process is restarted without limit."""
log = logging.getLogger("holdfast.worker")


def supervise(arguments: list[str], processes: int, metrics_port: int | None = None) -> int:
    """Runs `holdfast worker` with these arguments in `processes` processes. They serve their metrics on this
    port and the following ones."""
    return asyncio.run(Parent(arguments, processes, SystemClock(), metrics_port).run())


class Parent:
    """Restarts its children until a stop signal."""

    def __init__(
        self,
        arguments: list[str],
        processes: int,
        clock: Clock,
        metrics_port: int | None = None,
    ) -> None:
        self._command = [sys.executable, "-m", "holdfast", "worker", *arguments]
        self._count = processes
        self._metrics_port = metrics_port
        self._clock = clock
        self._children: dict[int, Process] = {}
        self._code = 0
        self._ending = asyncio.Event()

    async def run(self) -> int:
        stops = Stops()
        child_end, self._pipe = os.pipe()
        slots = [
            asyncio.create_task(self._keep_running(n, child_end)) for n in range(1, self._count + 1)
        ]
        forwarding = asyncio.create_task(self._forward(stops))
        await asyncio.gather(*slots)
        forwarding.cancel()
        os.close(child_end)
        os.close(self._pipe)
        return self._code or (INTERRUPTED if stops.fast.is_set() else 0)

    async def _forward(self, stops: Stops) -> None:
        """Forwards each stop request to every child. Two signals of one kind in quick succession can arrive
        as one, so the second request uses another signal."""
        for request, number in ((stops.graceful, signal.SIGTERM), (stops.fast, signal.SIGINT)):
            await request.wait()
            self._end(0, number)

    def _end(self, code: int, number: signal.Signals = signal.SIGTERM) -> None:
        self._code = self._code or code
        self._ending.set()
        for child in self._children.values():
            if child.returncode is None:
                child.send_signal(number)

    async def _keep_running(self, slot: int, pipe: int) -> None:
        """Runs the child of one slot and restarts it."""
        deaths: deque[float] = deque()
        while not self._ending.is_set():
            child = await self._start(slot, pipe)
            code = await child.wait()
            if self._ending.is_set():
                return
            pause = self._restart_pause(slot, child.pid, code, deaths)
            if pause is None:
                self._end(code if code > 0 else 1)
                return
            await self._clock.wait(self._ending, pause)

    async def _start(self, slot: int, pipe: int) -> Process:
        port = self._metrics_port
        child = await asyncio.create_subprocess_exec(
            *self._command,
            *([] if port is None else [f"--metrics-port={port and port + slot - 1}"]),
            pass_fds=(pipe,),
            env={**os.environ, PARENT_VARIABLE: str(pipe)},
            process_group=0,  # Ctrl-C reaches the parent only, which forwards it once
        )
        self._children[slot] = child
        log.info("worker %d started: pid %d", slot, child.pid)
        return child

    def _restart_pause(self, slot: int, pid: int, code: int, deaths: deque[float]) -> float | None:
        """Seconds to wait before the restart; None gives up."""
        now = self._clock.monotonic()
        deaths.append(now)
        while now - deaths[0] > WINDOW_SECONDS:
            deaths.popleft()
        ended = f"worker {slot} (pid {pid}) ended: {_describe(code)}"
        if code == NEVER_STARTS:
            log.error("%s; it cannot start, giving up", ended)
            return None
        if code != UNAVAILABLE and len(deaths) > DEATHS_MAX:
            log.error("%s; %d times in %g s, giving up", ended, len(deaths), WINDOW_SECONDS)
            return None
        pause = min(PAUSE_SECONDS * 2.0 ** (len(deaths) - 1), PAUSE_SECONDS_MAX)
        log.warning("%s; starting it again in %g s", ended, pause)
        return pause


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
