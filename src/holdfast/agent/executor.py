"""Commands on a host: each in a session that outlives the agent.

Promises: a command has the environment of its type and nothing of the agent's; it starts in `/`, without a
shell, with an empty stdin. `run_as` needs an agent of root. The exit record counts more than the process
table.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.agent.link import Host, HostGone
from holdfast.agent.ports import ExitRecord, Sight, Work
from holdfast.core.fleet.agents.journal import ProcessEvidence, ProcessMark
from holdfast.core.output import head_and_tail
from holdfast.errors import DiskFull, HoldfastError

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASE_ENV: Final = {"PATH": PATH, "LANG": "C.UTF-8"}
POLL_SECONDS: Final = 1.0
log = logging.getLogger("holdfast.agent")


class CannotStart(HoldfastError):
    """The process of a command could not be made."""

    code = "cannot-start"
    exit_code = 1


class HostExecutor:
    """The runs of one agent, in one folder of its host."""

    poll_seconds: float | None = POLL_SECONDS

    def __init__(self, host: Host, folder: Path | str, *, is_root: bool | None = None) -> None:
        self._host = host
        self._folder = str(folder)
        self._is_root = os.geteuid() == 0 if is_root is None else is_root
        self._changed: Callable[[], None] = lambda: None

    @property
    def boot_id(self) -> str:
        return self._host.boot_id

    async def prepare(self, work: Work) -> ProcessMark:
        if work.run_as is not None and not self._is_root:
            raise CannotStart(f"run_as {work.run_as!r} needs an agent that runs as root")
        spec: dict[str, Any] = {
            "id": self._path(work.run),
            "folder": self._path(work.run),
            "argv": list(work.argv),
            "env": {**BASE_ENV, **work.env},
            "run_as": work.run_as,
            "timeout": work.timeout_seconds,
            "grace": work.grace_seconds,
            "limit": work.output_bytes,
            "tail": head_and_tail(work.output_bytes)[1],
        }
        try:
            pid, start = await self._host.prepare(spec)
        except HostGone:
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"no process could be made: {error}") from error
            raise CannotStart(f"no process could be made: {error}") from error
        self._host.watch(self._path(work.run), lambda _: self._changed())
        return ProcessMark(pid, start, self._host.boot_id)

    async def release(self, run: str) -> None:
        await self._host.release(self._path(run))

    async def drop(self, run: str) -> None:
        await self._host.drop(self._path(run))

    async def look(self, run: str, process: ProcessMark) -> Sight:
        found = await self._host.call(
            "look", self._path(run), process.pid, process.start, process.boot_id
        )
        sizes = {str(name): int(size) for name, size in found["sizes"].items()}
        if found["exit"] is not None:
            return self._ended(run, found["exit"], sizes)
        evidence = ProcessEvidence.ALIVE if found["alive"] else ProcessEvidence.GONE
        return Sight(evidence, None, sizes, found.get("unkept_seconds"))

    def _ended(self, run: str, record: object, sizes: dict[str, int]) -> Sight:
        try:
            ended = msgspec.convert(record, ExitRecord)
        except msgspec.ValidationError as error:
            # How the command ended is not known. The agent and its other runs go on.
            log.warning("the exit record of run %s is damaged: %s", run, error)
            return Sight(ProcessEvidence.GONE, None, sizes)
        return Sight(ProcessEvidence.EXITED, ended, sizes)

    async def read(self, run: str, stream: str, start: int, size: int) -> str:
        text: str = await self._host.call("read", self._path(run), stream, start, size)
        return text

    async def stop(self, run: str, process: ProcessMark) -> None:
        try:
            await self._host.call("stop", self._path(run), process.pid, process.start)
        except HostGone:
            raise
        except OSError as error:
            # A command that cannot be stopped keeps nothing else of the host from being reported.
            log.warning("the command of run %s cannot be stopped: %s", run, error)

    async def remove(self, run: str) -> None:
        await self._host.call("remove_run", self._path(run))

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def _path(self, run: str) -> str:
        return f"{self._folder}/{run}"
