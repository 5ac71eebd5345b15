"""Signals that stop a worker: gracefully first, then fast.

Promises: the first SIGTERM, SIGINT or SIGHUP (a closed terminal) asks for a graceful stop, the second for
a fast one, the third exits the process at once. A repeat of the same signal within `ECHO_SECONDS` counts
once: GNU timeout signals its child and then the child's group. The end of the parent process counts as the
first signal. A SIGHUP ignored from the start (nohup) stays ignored.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Final

from holdfast.cli.exits import Exit

INTERRUPTED: Final = Exit.INTERRUPTED
PARENT_VARIABLE: Final = "HOLDFAST_WORKER_PARENT"
"""Environment variable with the file descriptor of a pipe that closes when the parent ends."""
ECHO_SECONDS: Final = 0.2
log = logging.getLogger("holdfast.worker")


class Stops:
    """Stop requests by signal, as asyncio events."""

    def __init__(self, doing: str = "no new tasks, waiting for running ones") -> None:
        """`doing`: what the first request starts, for the log."""
        self._doing = doing
        self.graceful = asyncio.Event()
        self.fast = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._received_at: dict[str, float] = {}
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            loop.add_signal_handler(number, self.receive, signal.Signals(number).name)
        self._watch_parent(loop)

    def receive(self, name: str) -> None:
        """Handles a signal and ignores its echo."""
        last, now = self._received_at.get(name), self._now()
        if last is not None and now - last < ECHO_SECONDS:
            return
        self._received_at[name] = now
        self.request(name)

    def request(self, reason: str) -> None:
        """One more request to stop."""
        if not self.graceful.is_set():
            log.info("stopping on %s: %s", reason, self._doing)
            self.graceful.set()
        elif not self.fast.is_set():
            log.info("stopping at once on %s: running tasks are released", reason)
            self.fast.set()
        else:
            os._exit(INTERRUPTED)

    def _watch_parent(self, loop: asyncio.AbstractEventLoop) -> None:
        number = os.environ.pop(PARENT_VARIABLE, None)
        if number is None:
            return
        pipe = int(number)
        os.set_inheritable(pipe, False)
        loop.add_reader(pipe, self._parent_ended, loop, pipe)

    def _parent_ended(self, loop: asyncio.AbstractEventLoop, pipe: int) -> None:
        loop.remove_reader(pipe)
        os.close(pipe)
        if not self.graceful.is_set():
            self.request("the end of its parent process")
