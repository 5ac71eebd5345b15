"""Signals that end a worker: first gently, then at once.

Promises: the first SIGTERM, SIGINT or SIGHUP (a terminal that was closed) asks for a graceful stop, the
second for a fast one, the third ends the process on the spot. A repeat of the same signal within
`ECHO_SECONDS` counts once: GNU timeout signals its child and then the child's group. The end of the process
that started this one counts as the first. A SIGHUP that was ignored from the start (nohup) stays ignored.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Final

INTERRUPTED: Final = 130
PARENT_VARIABLE: Final = "HOLDFAST_WORKER_PARENT"
"""Names a pipe whose end means that the parent is gone."""
ECHO_SECONDS: Final = 0.2
log = logging.getLogger("holdfast.worker")


class Stops:
    """Listens while the event loop runs."""

    def __init__(self) -> None:
        self.gentle = asyncio.Event()
        self.fast = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._heard: dict[str, float] = {}
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            loop.add_signal_handler(number, self.hear, signal.Signals(number).name)
        self._watch_parent(loop)

    def hear(self, name: str) -> None:
        """A signal has come; its echo asks for nothing."""
        before, now = self._heard.get(name), self._now()
        if before is not None and now - before < ECHO_SECONDS:
            return
        self._heard[name] = now
        self.ask(name)

    def ask(self, why: str) -> None:
        """One more wish to stop."""
        if not self.gentle.is_set():
            log.info("stopping on %s: no new tasks, waiting for those that run", why)
            self.gentle.set()
        elif not self.fast.is_set():
            log.info("stopping at once on %s: what runs is given back", why)
            self.fast.set()
        else:
            os._exit(INTERRUPTED)

    def _watch_parent(self, loop: asyncio.AbstractEventLoop) -> None:
        number = os.environ.pop(PARENT_VARIABLE, None)
        if number is None:
            return
        pipe = int(number)
        os.set_inheritable(pipe, False)
        loop.add_reader(pipe, self._parent_gone, loop, pipe)

    def _parent_gone(self, loop: asyncio.AbstractEventLoop, pipe: int) -> None:
        loop.remove_reader(pipe)
        os.close(pipe)
        if not self.gentle.is_set():
            self.ask("the end of its parent process")
