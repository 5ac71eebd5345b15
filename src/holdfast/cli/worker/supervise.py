"""Many worker processes under one parent.

Promises: a process that ends by itself is started again after a growing pause; one that dies too often
ends all, with its exit code; signals reach the children as asked, and children end when the parent is
killed. Never: runs tasks itself, or restarts what can never start (a wrong module name).
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
from holdfast.outcomes import OUTCOMES

DEATHS_MAX: Final = 5
WINDOW_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.5
PAUSE_SECONDS_MAX: Final = 10.0
NEVER_STARTS: Final = OUTCOMES["bad-config"].exit
UNAVAILABLE: Final = OUTCOMES["store-unavailable"].exit
"""The store is away: that is waited for, and costs no restart."""
log = logging.getLogger("holdfast.worker")


def supervise(arguments: list[str], processes: int) -> int:
    """Runs `holdfast worker` with these arguments so many times."""
    return asyncio.run(Parent(arguments, processes, SystemClock()).run())


class Parent:
    """Keeps its children up until it is told to stop."""

    def __init__(self, arguments: list[str], processes: int, clock: Clock) -> None:
        self._command = [sys.executable, "-m", "holdfast", "worker", *arguments]
        self._count = processes
        self._clock = clock
        self._children: dict[int, Process] = {}
        self._code = 0
        self._ending = asyncio.Event()

    async def run(self) -> int:
        stops = Stops()
        theirs, self._pipe = os.pipe()
        slots = [asyncio.create_task(self._keep(n, theirs)) for n in range(1, self._count + 1)]
        passing = asyncio.create_task(self._pass_on(stops))
        await asyncio.gather(*slots)
        passing.cancel()
        os.close(theirs)
        os.close(self._pipe)
        return self._code or (INTERRUPTED if stops.fast.is_set() else 0)

    async def _pass_on(self, stops: Stops) -> None:
        """Each wish to stop goes to every child. Two signals of one kind that come close together arrive
        as one, so the second wish is of another kind."""
        for wish, number in ((stops.gentle, signal.SIGTERM), (stops.fast, signal.SIGINT)):
            await wish.wait()
            self._end(0, number)

    def _end(self, code: int, number: signal.Signals = signal.SIGTERM) -> None:
        self._code = self._code or code
        self._ending.set()
        for child in self._children.values():
            if child.returncode is None:
                child.send_signal(number)

    async def _keep(self, slot: int, pipe: int) -> None:
        """One child after the other."""
        deaths: deque[float] = deque()
        while not self._ending.is_set():
            child = await self._start(slot, pipe)
            code = await child.wait()
            if self._ending.is_set():
                return
            pause = self._judge(slot, child.pid, code, deaths)
            if pause is None:
                self._end(code if code > 0 else 1)
                return
            await self._clock.wait(self._ending, pause)

    async def _start(self, slot: int, pipe: int) -> Process:
        child = await asyncio.create_subprocess_exec(
            *self._command,
            pass_fds=(pipe,),
            env={**os.environ, PARENT_VARIABLE: str(pipe)},
            process_group=0,  # Ctrl-C reaches the parent only, which passes it on once
        )
        self._children[slot] = child
        log.info("worker %d started: pid %d", slot, child.pid)
        return child

    def _judge(self, slot: int, pid: int, code: int, deaths: deque[float]) -> float | None:
        """How long to wait before the next start; None gives up."""
        now = self._clock.monotonic()
        deaths.append(now)
        while now - deaths[0] > WINDOW_SECONDS:
            deaths.popleft()
        ended = f"worker {slot} (pid {pid}) ended: {_said(code)}"
        if code == NEVER_STARTS:
            log.error("%s; it can not start, giving up", ended)
            return None
        if code != UNAVAILABLE and len(deaths) > DEATHS_MAX:
            log.error("%s; %d times in %g s, giving up", ended, len(deaths), WINDOW_SECONDS)
            return None
        pause = min(PAUSE_SECONDS * 2.0 ** (len(deaths) - 1), PAUSE_SECONDS_MAX)
        log.warning("%s; starting it again in %g s", ended, pause)
        return pause


def _said(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
