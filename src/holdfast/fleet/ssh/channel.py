"""A host over SSH: the keeper of an agent at the other end of a session.

Promises: the keys of hosts are checked. The sources of the keeper travel with the session; the host needs
Python and nothing else. A session that ends, or that another one has replaced, raises HostGone: what it
started goes on, and the next session finds it by its journal.
Never: a password; a shell beyond the one that starts the keeper.
"""

from __future__ import annotations

import asyncio
import errno
import shlex
from contextlib import suppress
from typing import Any, Final

import asyncssh

from holdfast.agent.boot import LOADER, PYTHON_FLAGS, sources
from holdfast.agent.link import Ended, HostGone, Lines
from holdfast.fleet.ssh.target import SshOptions, SshTarget

KEEPALIVES: Final = 3
STDERR_CHARS: Final = 500
REASON_SECONDS: Final = 1.0
"""How long a keeper that did not answer has to say why."""
NOISE_LINES_MAX: Final = 1_000


class _Reader:
    """The stream of answers. A connection that is lost ends it. What the login shell prints before the first
    answer, e.g. a greeting of its profile, is skipped."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._process = process
        self._noise_left = NOISE_LINES_MAX

    async def readline(self) -> bytes:
        while True:
            try:
                line: bytes = await self._process.stdout.readline()
            except asyncssh.Error:
                return b""
            if not self._noise_left or not line or line.startswith(b"{"):
                self._noise_left = 0
                return line
            self._noise_left -= 1


class SshHost:
    """See `holdfast.agent.link.Host`."""

    def __init__(self, target: SshTarget, options: SshOptions, session_id: str) -> None:
        self._target, self._options, self._session_id = target, options, session_id
        self._connection: asyncssh.SSHClientConnection | None = None
        self._process: asyncssh.SSHClientProcess[bytes] | None = None
        self._lines: Lines | None = None
        self._reading: asyncio.Task[None] | None = None
        self.boot_id = ""
        self.folder = ""
        self.is_root = False
        self.facts: dict[str, object] = {}

    async def open(self) -> None:
        """Connects, starts the keeper and takes over the host. HostGone if it cannot be."""
        try:
            async with asyncio.timeout(self._options.connect_seconds):
                await self._start()
                about = await self.call("about")
                self.boot_id, self.is_root = about["boot_id"], about["is_root"]
                self.facts = about["facts"]
                self.folder = f"{about['home']}/{self._options.folder}"
                await self._ask({"do": "session", "folder": self.folder, "id": self._session_id})
        except (OSError, asyncssh.Error) as error:  # TimeoutError is an OSError.
            raise HostGone(f"{self._target.host}: {await self._reason(error)}") from None

    async def _start(self) -> None:
        options = self._options
        given: dict[str, Any] = {
            "known_hosts": options.known_hosts,
            "client_keys": list(options.key_files) or None,
            "username": self._target.user or options.user,
        }
        self._connection = await asyncssh.connect(
            self._target.host,
            self._target.port,
            keepalive_interval=options.keepalive_seconds,
            keepalive_count_max=KEEPALIVES,
            # Only what is configured here counts.
            config=None,
            **{name: value for name, value in given.items() if value is not None},
        )
        argv = [options.python, *PYTHON_FLAGS, "-c", LOADER]
        self._process = await self._connection.create_process(shlex.join(argv), encoding=None)
        self._process.stdin.write(sources())
        self._lines = Lines(_Reader(self._process), self._process.stdin.write)
        self._reading = asyncio.create_task(self._lines.run(), name="holdfast-ssh-host")

    async def _reason(self, error: Exception) -> str:
        """Why the keeper did not answer, e.g. because the host has no Python."""
        said = b""
        if self._process is not None and isinstance(error, HostGone):
            with suppress(TimeoutError, asyncssh.Error):
                async with asyncio.timeout(REASON_SECONDS):
                    said = (await self._process.stderr.read(STDERR_CHARS)).strip()
        if said:
            return said.decode(errors="replace").splitlines()[-1]
        return "no answer in time" if isinstance(error, TimeoutError) else str(error)

    async def _ask(self, request: dict[str, Any]) -> Any:
        if self._lines is None:
            raise HostGone("the host is not connected")
        try:
            answer = await self._lines.ask(request)
        except OSError as error:
            if error.errno == errno.ESTALE:
                raise HostGone(str(error)) from None
            raise
        return answer

    async def call(self, do: str, *args: object) -> Any:
        return (await self._ask({"do": do, "args": list(args)}))["value"]

    async def prepare(self, spec: dict[str, Any]) -> tuple[int, int]:
        answer = await self._ask({**spec, "do": "prepare"})
        return answer["pid"], answer["start"]

    async def release(self, run: str) -> None:
        self._tell({"do": "release", "id": run})

    async def drop(self, run: str) -> None:
        self._tell({"do": "drop", "id": run})

    def _tell(self, request: dict[str, Any]) -> None:
        if self._lines is None:
            raise HostGone("the host is not connected")
        self._lines.tell(request)

    def watch(self, run: str, ended: Ended) -> None:
        if self._lines is not None and self._lines.is_open:
            self._lines.watch(run, ended)

    async def close(self) -> None:
        """Ends the session. The keeper ends after its last command."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort()
            await self._connection.wait_closed()
