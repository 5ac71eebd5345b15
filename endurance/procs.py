"""Processes of a run, and what the kernel says about them. Linux only."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.servers import die_with_parent

ROOT = Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """One `endurance.process`; its counts come in while it runs."""

    def __init__(self, role: str, log: Path, **env: object) -> None:
        self.role = role
        self.told: dict[str, float] = {}
        self._rest = b""
        given = {f"ENDURANCE_{name.upper()}": str(value) for name, value in env.items()}
        with log.open("ab") as stderr:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "endurance.process", role],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env=os.environ | given | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
                preexec_fn=lambda: die_with_parent(signal.SIGKILL),  # noqa: PLW1509
            )
        self.pid = self._popen.pid

    def listen(self) -> dict[str, float]:
        """The newest counts; RuntimeError when it has ended by itself."""
        assert self._popen.stdout
        stream = self._popen.stdout.fileno()
        while select.select([stream], [], [], 0)[0]:
            part = os.read(stream, 65536)
            if not part:
                raise RuntimeError(f"the {self.role} ended: see the log")
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                self.told = json.loads(line)
        return self.told

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Until it has told something."""
        end = time.monotonic() + seconds
        while not self.listen():
            if time.monotonic() > end:
                raise RuntimeError(f"the {self.role} did not start")
            time.sleep(0.02)

    def stop(self) -> None:
        """Gently; it is killed after a while."""
        assert self._popen.stdin
        assert self._popen.stdout
        self._popen.stdin.close()
        try:
            self._popen.wait(20)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._popen.stdout.close()


def cpu_seconds(pid: int) -> float:
    """What a process has used, children that it has buried included; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def memory(pid: int) -> dict[str, float] | None:
    """Resident, own (not shared with anybody) and swapped memory in MB, open files, CPU seconds."""
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
    """Direct children with what they call themselves."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                name = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                found[int(stat.parent.name)] = name
        except OSError:
            continue
    return found


def backends(postmaster: int, database: str) -> list[int]:
    """The server's sessions in one database."""
    return [pid for pid, name in children(postmaster).items() if f" {database} " in name]


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    return [pid, *(below for each in children(pid) for below in tree(each))]


Sample = dict[str, Any]
