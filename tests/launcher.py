"""Starts `holdfast` commands as processes that do not import everything again.

One process for each pytest worker imports Holdfast and the libraries of its server, and forks a child for
each command. Promises: a child has its own arguments, folder, environment and standard streams, like `python
-m holdfast`; it ends like an interpreter and can be killed like any process. Never: used for a process that
starts further processes (`holdfast worker --processes`), or by a test of what a start imports.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import functools
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

import msgspec

ROOT: Final = Path(__file__).resolve().parent.parent
LENGTH: Final = struct.Struct("!Q")
NUMBER: Final = struct.Struct("!i")
CLONE_NEWNET: Final = 0x40000000
SERVER: Final = ("gateway.rest.app", "gateway.rest.live", "gateway.worker.grpc", "queue.queue")
DRIVERS: Final = ("store.sqlite.driver", "store.postgres.driver", "cli.session", "client.http")


class Request(msgspec.Struct, frozen=True):
    """A command to start."""

    args: list[str]
    folder: str
    env: dict[str, str]
    network: str = ""
    """The file of a network namespace. Empty: that of this process."""


class Child:
    """A started command."""

    def __init__(self, status: int) -> None:
        self._status = status
        self.stdout: IO[str] | None = None
        self.pid: int = NUMBER.unpack(os.read(status, NUMBER.size))[0]
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.take_status()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("holdfast", timeout or 0.0)
            self.take_status()
        assert self.returncode is not None
        return self.returncode

    async def first_line(self) -> str:
        """The first line of its stdout, or nothing if it has ended before."""
        assert self.stdout is not None
        return await asyncio.to_thread(self.stdout.readline)

    async def ended(self) -> int:
        """The same without blocking the event loop."""
        if self.returncode is None:
            loop, is_over = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(self._status, is_over.set)
            try:
                await is_over.wait()
            finally:
                loop.remove_reader(self._status)
        return self.wait()

    def take_status(self) -> None:
        self.returncode = NUMBER.unpack(os.read(self._status, NUMBER.size))[0]
        os.close(self._status)


class Launcher:
    """The connection to the process that forks."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        with other:
            command = [sys.executable, "-m", "tests.launcher", str(other.fileno())]
            files = [other.fileno()]
            self._process = subprocess.Popen(
                command, cwd=ROOT, pass_fds=files, stdin=subprocess.DEVNULL
            )
        self._sending = threading.Lock()
        """A request is several writes: those of two threads must not mix."""
        atexit.register(self._close)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()

    def start(
        self,
        args: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        streams: tuple[IO[str] | IO[bytes] | int, ...],
        network: str = "",
    ) -> Child:
        """Starts a command with these files as stdin, stdout and stderr. `network`: see `Request`."""
        status, reporting = os.pipe()
        numbers = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
        body = msgspec.json.encode(Request(list(args), str(folder), dict(env), network))
        try:
            with self._sending:
                socket.send_fds(self._socket, [LENGTH.pack(len(body))], [*numbers, reporting])
                self._socket.sendall(body)
        finally:
            os.close(reporting)
        return Child(status)

    @contextmanager
    def running(
        self,
        args: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        stderr: IO[str],
        network: str = "",
    ) -> Iterator[Child]:
        """A command whose stdout can be read. It is killed at the end."""
        reading, writing = os.pipe()
        with Path(os.devnull).open() as stdin, os.fdopen(reading) as stdout:
            try:
                child = self.start(args, folder, env, (stdin, writing, stderr), network)
            finally:
                os.close(writing)
            child.stdout = stdout
            try:
                yield child
            finally:
                child.kill()
                child.wait()


_making = threading.Lock()


def launcher() -> Launcher:
    """The launcher of this process. It ends when this process has ended."""
    with _making:
        return _made()


@functools.cache
def _made() -> Launcher:
    return Launcher()


def run(
    args: Sequence[str], folder: Path, env: Mapping[str, str], input: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(input.encode())
        stdin.seek(0)
        child = launcher().start(args, folder, env, (stdin, stdout, stderr))
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
        stdout.seek(0), stderr.seek(0)
        out, said = stdout.read().decode(), stderr.read().decode()
        return subprocess.CompletedProcess(list(args), code, out, said)


# -- the process that forks -----------------------------------------------------------------------


def serve(connection: socket.socket) -> Request:
    """Forks a child for each request, and returns in the child."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the parents of the children are reaped unasked
    while True:
        head, files, _, _ = socket.recv_fds(connection, LENGTH.size, 4)
        if not head:
            os._exit(0)
        body = bytearray()
        while len(body) < LENGTH.unpack(head)[0]:
            body += connection.recv(LENGTH.unpack(head)[0] - len(body))
        *streams, reporting = files
        if os.fork() == 0:
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if (pid := os.fork()) == 0:
                os.close(reporting)
                return become(msgspec.json.decode(body, type=Request), streams)
            report(pid, reporting, streams)
        for number in files:
            os.close(number)


def report(pid: int, reporting: int, streams: list[int]) -> None:
    """Waits for the child, and reports its pid and its end."""
    for number in (0, 1, 2, *streams):
        os.close(number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the whole group
    os.write(reporting, NUMBER.pack(pid))
    _, status = os.waitpid(pid, 0)
    os.write(reporting, NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def become(request: Request, streams: list[int]) -> Request:
    """Gives this process what a new one would have."""
    for place, number in enumerate(streams):
        os.dup2(number, place)
        os.close(number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    if request.network:
        enter(request.network)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.env)
    sys.path[0] = request.folder
    sys.argv = ["holdfast", *request.args]
    return request


def enter(network: str) -> None:
    """Moves this process to a network namespace. `os.setns` is new in Python 3.12."""
    number = os.open(network, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(number, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"the namespace {network} cannot be entered")
    os.close(number)


def preload() -> None:
    """Imports what commands and servers need. None of it may start a thread or open a file."""
    import gc
    import importlib

    from holdfast.cli import commands

    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}")
    for name in (*SERVER, *DRIVERS):
        importlib.import_module(f"holdfast.{name}")
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload()
    serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("holdfast", run_name="__main__", alter_sys=True)
