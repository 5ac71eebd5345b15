"""The journal of handlers: an append-only file per process, outside the queue under test.

Promises: a line is one write, so a killed process leaves only complete lines; `time.monotonic_ns` is one
clock for all processes of a Linux machine.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proof.lab.subject import probe_folder

START, END, ACKNOWLEDGED = "start", "end", "acknowledged"
_open: dict[int, int] = {}
"""The file of this process; a forked process opens another one."""


class Line(NamedTuple):
    """A job started or ended in a process, or its enqueue was acknowledged."""

    word: str
    job: int
    task: str
    attempt: int
    pid: int
    at: int


def note(word: str, jobs: int | list[int], task: object = "-", attempt: object = "-") -> None:
    """Appends a line for each job."""
    pid, now = os.getpid(), time.monotonic_ns()
    if pid not in _open:
        path = probe_folder() / f"{pid}-{now}.journal"
        _open[pid] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    tried = attempt if isinstance(attempt, int) else 0
    each = [jobs] if isinstance(jobs, int) else jobs
    text = "".join(f"{word} {job} {task} {tried} {pid} {now}\n" for job in each)
    os.write(_open[pid], text.encode())


async def run_async(job: int, ms: int, task: object, attempt: object = 0) -> None:
    """Body of every async handler."""
    note(START, job, task, attempt)
    await asyncio.sleep(ms / 1000)
    note(END, job, task, attempt)


def run(job: int, ms: int, task: object, attempt: object = 0) -> None:
    """Body of every blocking handler."""
    note(START, job, task, attempt)
    time.sleep(ms / 1000)
    note(END, job, task, attempt)


class Reader:
    """Reads all journals of a folder, each line once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: dict[Path, int] = {}
        self.lines: list[Line] = []

    def update(self) -> list[Line]:
        """Everything written so far."""
        for path in sorted(self._path.glob("*.journal")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            self.lines.extend(_parsed(whole))
        return self.lines


def _parsed(data: bytes) -> Iterator[Line]:
    for text in data.decode().splitlines():
        word, job, task, attempt, pid, at = text.split()
        yield Line(word, int(job), task, int(attempt), int(pid), int(at))
