"""The host of an agent as calls: files, and processes that outlive the agent.

`LocalHost` is the machine that the agent runs on; the SSH driver has another one that speaks the same lines
with a `keeper.py` far away (`Lines`).

Promises: a call that fails on the host raises OSError with the host's number, e.g. ENOSPC. A keeper that has
died is replaced at the next start of a command.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol

from holdfast.agent.boot import LOADER, PYTHON_FLAGS, sources
from holdfast.agent.files import Disk, boot_id
from holdfast.agent.host import HOST_CALLS
from holdfast.agent.pace import SyncPace
from holdfast.clock import BlockingClock, SystemClock

log = logging.getLogger("holdfast.agent")
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
Ended = Callable[[str], None]
WRITES: Final = frozenset({"append", "cut", "forget", "keep_text", "remove_run"})
APPEND: Final = "append"
THREADS_MAX: Final = 32


class HostGone(ConnectionError):
    """The connection to the host has ended before the answer."""


class Host(Protocol):
    """A machine with the files of one or more agents."""

    boot_id: str

    async def call(self, do: str, *args: object) -> Any:
        """One of `host.HOST_CALLS`."""
        ...

    async def prepare(self, spec: dict[str, Any]) -> tuple[int, int]:
        """Makes a run that waits for its release. Returns the id and the start time of its keeper."""
        ...

    async def release(self, run: str) -> None:
        """Lets the run begin."""
        ...

    async def drop(self, run: str) -> None:
        """Ends the run without a start."""
        ...

    def watch(self, run: str, ended: Ended) -> None:
        """Calls `ended` when this run ends, if it was prepared here."""
        ...

    async def close(self) -> None: ...


class Lines:
    """Requests and answers as lines of JSON, over any pair of streams."""

    def __init__(self, reader: Any, write: Callable[[bytes], Any]) -> None:
        self._reader, self._write = reader, write
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._watched: dict[str, Ended] = {}
        self._count = 0
        self.is_open = True

    async def run(self) -> None:
        """Reads answers until the stream ends; then everything that waits fails."""
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except (OSError, ValueError):
            pass  # A stream that broke has ended too.
        finally:
            self.is_open = False
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(HostGone("the connection to the host has ended"))
            for ended in [*self._watched.items()]:
                ended[1](ended[0])

    def _take(self, answer: dict[str, Any]) -> None:
        if "failed" in answer:
            log.error("the keeper has failed: %s", answer["failed"])
            return
        if "ended" in answer:
            if ended := self._watched.pop(answer["ended"], None):
                ended(answer["ended"])
            return
        waiting = self._waiting.pop(answer["n"], None)
        if waiting is None or waiting.done():
            return
        if "error" in answer:
            waiting.set_exception(OSError(answer.get("errno") or 0, answer["error"]))
        else:
            waiting.set_result(answer)

    def watch(self, run: str, ended: Ended) -> None:
        self._watched[run] = ended

    def tell(self, request: dict[str, Any]) -> None:
        if not self.is_open:
            raise HostGone("the connection to the host has ended")
        self._write(json.dumps(request).encode() + b"\n")

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        number = self._count
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self.tell({**request, "n": number})
            return await future
        finally:
            self._waiting.pop(number, None)


class LocalHost:
    """This machine. Agents of one process share it."""

    def __init__(self, disk: Disk | None = None, clock: BlockingClock | None = None) -> None:
        self.boot_id = boot_id()
        self._disk = disk or Disk()
        self._clock = clock or SystemClock()
        self._pace = SyncPace()
        self._lines: Lines | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._threads = ThreadPoolExecutor(THREADS_MAX, "holdfast-agent-disk")

    async def call(self, do: str, *args: object) -> Any:
        """On a slow disk writes are in threads: a sync takes milliseconds, and those of several agents share
        the disk's."""
        make = partial(HOST_CALLS[do], self._disk, *args)
        if do not in WRITES:
            return make()
        has_sync = do == APPEND and bool(args[-1])
        if not self._pace.is_on_the_spot(has_sync=has_sync):
            return await asyncio.get_running_loop().run_in_executor(self._threads, make)
        began_at = self._clock.monotonic()
        made = make()
        if has_sync:
            self._pace.took(self._clock.monotonic() - began_at)
        return made

    async def prepare(self, spec: dict[str, Any]) -> tuple[int, int]:
        request = {**spec, "do": "prepare"}
        try:
            answer = await (await self._connected()).ask(request)
        except HostGone:  # Nothing was released: another keeper may prepare the run.
            answer = await (await self._connected()).ask(request)
        return answer["pid"], answer["start"]

    async def release(self, run: str) -> None:
        (await self._connected()).tell({"do": "release", "id": run})

    async def drop(self, run: str) -> None:
        (await self._connected()).tell({"do": "drop", "id": run})

    def watch(self, run: str, ended: Ended) -> None:
        if self._lines is not None and self._lines.is_open:
            self._lines.watch(run, ended)

    async def close(self) -> None:
        """Lets the keeper go. It ends after its last command."""
        if self._writer is None or self._reading is None:
            return
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()
        self._writer, self._lines = None, None

    async def _connected(self) -> Lines:
        async with self._starting:
            if self._lines is None or not self._lines.is_open:
                await self.close()
                self._lines = await self._start()
            return self._lines

    async def _start(self) -> Lines:
        """Not with `asyncio.subprocess`: it kills its processes when this one ends."""
        ours, pid = _spawn()
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=LINE_BYTES_MAX)
        self._writer.write(sources())
        lines = Lines(reader, self._writer.write)
        self._reading = asyncio.create_task(self._serve(lines, pid), name="holdfast-agent-keeper")
        return lines

    async def _serve(self, lines: Lines, pid: int) -> None:
        """Until the keeper ends. It is reaped then; after a cancellation it goes on without this process."""
        await lines.run()
        await asyncio.to_thread(os.waitpid, pid, 0)


def _spawn() -> tuple[socket.socket, int]:
    """The keeper: our end of its stdin and stdout, and its process id."""
    ours, theirs = socket.socketpair()
    with theirs:
        # Not our stderr: the keeper would hold the pipe of a supervisor of ours open after our end.
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        argv = [sys.executable, *PYTHON_FLAGS, "-c", LOADER]
        env = {"PATH": os.defpath}
        pid = os.posix_spawn(sys.executable, argv, env, file_actions=actions, setsid=True)
    return ours, pid
