"""The demo's workers: `holdfast worker --processes N`, as a user would start it.

Promises: real processes; whatever happens to the demo, they end with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Final

from holdfast.app import TaskQueue
from holdfast.cli.worker.stops import PARENT_VARIABLE
from holdfast.errors import HoldfastError
from holdfast.queue.nodes import Node

PROCESSES: Final = 3
LOOK_SECONDS: Final = 0.1
END_SECONDS: Final = 10.0
LOG_NAME: Final = "workers.log"


class DemoFailed(HoldfastError):
    """The demo could not be played to its end."""


class Crew:
    """One parent process and its children."""

    def __init__(self, queue: TaskQueue, name: str, folder: Path) -> None:
        self._queue = queue
        self._name = name
        self._pipe = -1
        self._process: Process | None = None
        self.folder = folder
        self.log = folder / LOG_NAME
        self.code: int | None = None

    async def start(self) -> None:
        theirs, self._pipe = os.pipe()
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "holdfast",
                "worker",
                "holdfast.cli.demo.tasks:queue",
                f"--processes={PROCESSES}",
                pass_fds=(theirs,),
                env={**os.environ, PARENT_VARIABLE: str(theirs)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        os.close(theirs)

    async def nodes(self) -> list[Node]:
        """The workers that are up, oldest first."""
        found = [node for node in await self._queue.get_nodes() if self._name in node.queues]
        return sorted(found, key=lambda node: node.started_at)

    async def until_up(self, count: int, *, without: str = "") -> list[Node]:
        """Waits until so many workers are up, not counting one."""
        while True:
            self._check()
            nodes = [node for node in await self.nodes() if node.id != without]
            if len(nodes) >= count:
                return nodes
            await asyncio.sleep(LOOK_SECONDS)

    async def stop(self) -> None:
        """Asks for a graceful stop and waits for it."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            self.code = await self._process.wait()

    async def end(self) -> None:
        """Whatever is still up is stopped at once."""
        if self._process is not None and self._process.returncode is None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(END_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._signal(signal.SIGKILL)
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def _check(self) -> None:
        if self._process is not None and self._process.returncode is not None:
            raise DemoFailed(f"the workers ended early; see {self.log}")


def pid_of(node: Node) -> int:
    """A node's id is host:pid:incarnation."""
    return int(node.id.split(":")[-2])
