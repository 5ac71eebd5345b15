"""Worker processes of a subject: started together, watched through ``/proc``, killed by pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.servers import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.subjects._protocol import Options

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class WorkerTree:
    """One or more worker processes that wait for ``go``; each leads a session of its own."""

    def __init__(self, module: str, options: Options, processes: int) -> None:
        """Start ``processes`` interpreters with ``module`` and wait until all are loaded."""
        env = os.environ | {"BENCH_OPTIONS": json.dumps(options.as_dict())}
        command = [sys.executable, "-m", module, "worker"]
        self.procs = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=env,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(signal.SIGKILL),  # noqa: PLW1509
            )
            for _ in range(processes)
        ]
        for proc in self.procs:
            assert proc.stdout
            if proc.stdout.readline() != b"ready\n":
                self.kill()
                message = "a worker process ended before it was ready"
                raise RuntimeError(message)

    def go(self) -> int:
        """Release all of them; return when (``monotonic_ns``)."""
        started = time.monotonic_ns()
        for proc in self.procs:
            assert proc.stdin
            proc.stdin.write(b"go\n")
            proc.stdin.flush()
        return started

    def alive(self) -> bool:
        """Say whether every process still runs."""
        return all(proc.poll() is None for proc in self.procs)

    def pids(self) -> Iterator[tuple[int, list[str]]]:
        """Every process of the tree with the fields of its ``stat`` after the name."""
        leaders = {proc.pid for proc in self.procs}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) in leaders:
                yield int(path.parent.name), fields

    def cpu_seconds(self) -> float:
        """User and system time of the tree, ended children included."""
        return sum(sum(map(int, fields[11:15])) for _, fields in self.pids()) / _TICKS

    def rss_bytes(self) -> int:
        """Resident memory of the tree (pages shared by a fork count in each)."""
        return sum(int(fields[21]) for _, fields in self.pids()) * _PAGE

    def kill(self) -> int:
        """SIGKILL every process of the tree; return when (``monotonic_ns``)."""
        at = time.monotonic_ns()
        while members := [pid for pid, fields in self.pids() if fields[0] not in "ZX"]:
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
