"""Child processes that end with their parent, and statistics of processes from the kernel. Linux only.

Imports the standard library only: workers also start from the environments of peers.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def start(
    command: Sequence[str | Path],
    *,
    env: dict[str, str] | None = None,
    log: Path | None = None,
    new_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Starts a process in the repository's folder, with pipes for stdin and stdout; stderr goes to `log`,
    or to the parent's. The kernel kills it when its parent ends."""
    stderr: IO[bytes] | None = log.open("ab") if log else None
    try:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=ROOT,
            env=os.environ | (env or {}),
            start_new_session=new_session,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread holds a lock that it needs
        )
    finally:
        if stderr:
            stderr.close()


_TIED = """
import ctypes, os, sys
parent, *argv = sys.argv[1:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(parent):
    os.execv(argv[0], argv)
"""


def tied(*command: str | Path) -> list[str]:
    """The command line of a process that the kernel kills when its parent ends, without a hook between fork
    and exec: for parents with threads or an event loop."""
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *map(str, command)]


async def start_module(module: str, *arguments: object) -> asyncio.subprocess.Process:
    """The same for a module, on an event loop. The caller ends it: a hook before exec is not safe in a
    process with threads."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *map(str, arguments)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def stop(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Closes its stdin, waits, and kills it if it has not ended after `seconds`."""
    assert process.stdin
    assert process.stdout
    process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


class WorkerTree:
    """Worker processes of a subject with their children. They wait for `go`; each leads a session."""

    def __init__(
        self,
        module: str,
        options: dict[str, Any],
        processes: int,
        *,
        python: str | Path = sys.executable,
        env: dict[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        """Starts `processes` interpreters with `module` and waits until all are loaded."""
        env = (env or {}) | {"BENCH_OPTIONS": json.dumps(options)}
        command = [python, "-m", module, "worker"]
        self.procs = [start(command, env=env, log=log, new_session=True) for _ in range(processes)]
        for proc in self.procs:
            assert proc.stdout
            if proc.stdout.readline() != b"ready\n":
                self.kill()
                raise RuntimeError("a worker process ended before it was ready")

    def go(self) -> int:
        """Releases all of them; returns when (`monotonic_ns`)."""
        started = time.monotonic_ns()
        for proc in self.procs:
            assert proc.stdin
            proc.stdin.write(b"go\n")
            proc.stdin.flush()
        return started

    def alive(self) -> bool:
        """Whether every process still runs."""
        return all(proc.poll() is None for proc in self.procs)

    def _stats(self) -> Iterator[tuple[int, list[str]]]:
        """Every process of the tree with the fields of its `stat` after the name."""
        leaders = {proc.pid for proc in self.procs}
        for pid, fields in stats():
            if int(fields[3]) in leaders:
                yield pid, fields

    def cpu_seconds(self) -> float:
        """User and system time of the tree, ended children included."""
        return sum(sum(map(int, fields[11:15])) for _, fields in self._stats()) / TICKS

    def rss_bytes(self) -> int:
        """Resident memory of the tree (pages shared by a fork count in each)."""
        return sum(int(fields[21]) for _, fields in self._stats()) * PAGE_BYTES

    def signal(self, sig: signal.Signals) -> None:
        """To every process of the tree."""
        for pid, _ in list(self._stats()):
            os.kill(pid, sig)

    def kill(self) -> int:
        """SIGKILL to every process of the tree; returns when (`monotonic_ns`)."""
        at = time.monotonic_ns()
        while members := [pid for pid, fields in self._stats() if fields[0] not in "ZX"]:
            for pid in members:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.01)
        for proc in self.procs:
            proc.wait()
            for pipe in (proc.stdin, proc.stdout):
                if pipe:
                    pipe.close()
        return at


class Reporting:
    """A module in a process that prints its figures as JSON lines until its stdin ends."""

    def __init__(self, module: str, role: str, log: Path, env: dict[str, str]) -> None:
        self.role = role
        self.figures: dict[str, float] = {}
        self._rest = b""
        self._process = start([sys.executable, "-m", module, role], env=env, log=log)
        self.pid = self._process.pid

    def listen(self) -> dict[str, float]:
        """The newest figures; RuntimeError when the process has ended."""
        assert self._process.stdout
        stream = self._process.stdout.fileno()
        while select.select([stream], [], [], 0)[0]:
            part = os.read(stream, 65536)
            if not part:
                raise RuntimeError(f"the {self.role} ended: see the log")
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                self.figures = json.loads(line)
        return self.figures

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Until its first figures."""
        end = time.monotonic() + seconds
        while not self.listen():
            if time.monotonic() > end:
                raise RuntimeError(f"the {self.role} did not start")
            time.sleep(0.02)

    def stop(self) -> None:
        stop(self._process, 20)


def stats() -> Iterator[tuple[int, list[str]]]:
    """Every process of the machine with the fields of its `stat` after the name."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended between the listing and the read
        yield int(path.parent.name), fields


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, including its reaped children; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def memory(pid: int) -> dict[str, float] | None:
    """Resident, private and swapped memory in MB, open files, CPU seconds; None when it has ended."""
    base = Path(f"/proc/{pid}")
    try:
        lines = (base / "smaps_rollup").read_text().splitlines()[1:]
        files = len(list((base / "fd").iterdir()))
    except OSError:
        return None
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return {
        "rss_mb": kb["Rss"] / 1024,
        "pss_mb": kb["Pss"] / 1024,
        "own_mb": (kb["Private_Clean"] + kb["Private_Dirty"] + kb["Swap"]) / 1024,
        "files": files,
        "cpu_seconds": cpu_seconds(pid),
    }


def children(pid: int) -> dict[int, str]:
    """Direct children with their command lines."""
    commands = {}
    for child, fields in stats():
        if int(fields[1]) == pid:
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes()
            except OSError:
                continue
            commands[child] = line.replace(b"\0", b" ").decode().strip()
    return commands


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    return [pid, *(below for child in children(pid) for below in tree(child))]
